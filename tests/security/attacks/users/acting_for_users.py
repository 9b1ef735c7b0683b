"""A service that acts for another user with each request."""

from __future__ import annotations

import asyncio

from tests.processes import token
from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import HttpConnection, graphql_body

_QUERY = "{ me { id } sessions(first: 10) { totalUnread } }"


async def run(attacker: Attacker) -> None:
    body, service = graphql_body(_QUERY), token(attacker.user, "service")
    at_once = asyncio.Semaphore(20)

    async def one(number: int) -> None:
        async with at_once:
            connection = HttpConnection(attacker.port, service, f"confab-act-as: acted{number}")
            await attacker.ask(connection, body)
            connection.close()

    await attacker.together(one)


ATTACK = Attack(
    "a service acting for many users", run, full=10_000, short=40, rate=100, limits=Limits(cpu_ms=60, kept_mb=60)
)
