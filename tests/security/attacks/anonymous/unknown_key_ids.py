"""Tokens that name public keys which do not exist: the server may not ask the identity provider for each."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import HttpConnection, graphql_body
from tests.server.tokens import b64


def forged_token(number: int, user: str) -> str:
    """Return a token with an unknown key id and no signature of anybody."""
    head = b64({"alg": "RS256", "kid": f"key {number}"})
    return f"{head}.{b64({'sub': user, 'exp': 4_000_000_000})}.{b64(bytes(256))}"


async def run(attacker: Attacker) -> None:
    body = graphql_body("{ me { id } }")
    at_once = asyncio.Semaphore(20)

    async def one(number: int) -> None:
        async with at_once:
            connection = HttpConnection(attacker.port, forged_token(number, attacker.user))
            await attacker.ask(connection, body)
            connection.close()

    await attacker.together(one)


ATTACK = Attack(
    "tokens with unknown key ids",
    run,
    full=10_000,
    short=60,
    rate=100,
    limits=Limits(codes=frozenset({"UNAUTHENTICATED"}), cpu_ms=10, answer_bytes=4_000, kept_mb=20),
    has_key_set=True,
)
