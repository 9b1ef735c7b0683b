"""WebSockets that ask for large answers and read none of them."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.users import large_answers

_PER_SOCKET = 10


async def run(attacker: Attacker) -> None:
    sockets = []
    async for number in attacker.turns():
        if number % _PER_SOCKET == 0:
            socket = await attacker.socket()
            if socket is None:
                continue
            # The client's own buffer would read on.
            socket.transport.pause_reading()
            sockets.append(socket)
        if sockets:
            await attacker.subscribe(sockets[-1], str(number), large_answers.QUERY, id=attacker.given["group"])
    await asyncio.sleep(max(0.0, attacker.seconds_left) if attacker.rate else 1.0)
    for socket in sockets:
        socket.transport.abort()


ATTACK = Attack(
    "200 answers of 1 MB over 20 WebSockets, never read",
    run,
    full=200,
    short=20,
    prepare=large_answers.prepare,
    limits=Limits(peak_mb=60),
)
