"""WebSockets that send a connection_init without a token: none may stay open."""

from __future__ import annotations

import asyncio

from websockets.asyncio.client import ClientConnection

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker


async def run(attacker: Attacker) -> None:
    sockets: list[ClientConnection] = []
    opened = asyncio.Semaphore(50)

    async def one(_: int) -> None:
        async with opened:
            socket = await attacker.socket(signed_in=False)
        if socket is not None:
            attacker.report.codes["acknowledged"] += 1
            sockets.append(socket)
            await attacker.listen(socket)

    await attacker.together(one)
    attacker.report.open_after += sum(socket.close_code is None for socket in sockets)


ATTACK = Attack(
    "2,000 WebSockets without a token",
    run,
    full=2_000,
    short=40,
    short_seconds=3,
    rate=200,
    limits=Limits(codes=frozenset({"4403"}), open_after=0),
)
