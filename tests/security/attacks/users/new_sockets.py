"""WebSockets of one user that are opened, signed in and dropped without a close frame."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.users.many_subscriptions import QUERY


async def run(attacker: Attacker) -> None:
    at_once = asyncio.Semaphore(20)

    async def one(number: int) -> None:
        async with at_once:
            socket = await attacker.socket()
            if socket is not None:
                await attacker.subscribe(socket, str(number), QUERY)
                socket.transport.abort()

    await attacker.together(one)


ATTACK = Attack(
    "WebSockets opened and dropped", run, full=5_000, short=40, rate=100, limits=Limits(cpu_ms=60, kept_mb=30)
)
