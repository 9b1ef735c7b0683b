"""Guessed tokens: each has another wrong signature."""

from __future__ import annotations

import asyncio
import time

import jwt

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import HttpConnection, graphql_body


async def run(attacker: Attacker) -> None:
    body = graphql_body("{ me { id } }")
    free = asyncio.Semaphore(20)

    async def one(number: int) -> None:
        secret = f"guess {number} that is long enough for a secret"
        forged = jwt.encode({"sub": attacker.user, "exp": time.time() + 60}, secret, algorithm="HS256")
        async with free:
            connection = HttpConnection(attacker.port, forged)
            await attacker.ask(connection, body)
            connection.close()

    await attacker.together(one)


ATTACK = Attack(
    "guessed tokens",
    run,
    full=10_000,
    short=100,
    rate=100,
    limits=Limits(codes=frozenset({"UNAUTHENTICATED"}), cpu_ms=10, answer_bytes=4_000, kept_mb=20),
)
