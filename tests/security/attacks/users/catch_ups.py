"""Catch-ups of a user with many sessions, all at once on a few WebSockets."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker

_PER_SOCKET = 50
_PATIENCE = 30.0
_QUERY = """subscription { syncSession(since: "no cursor") { hasMore reset cursor sessions {
    id unreadCount readSeq writeTs activeTs conversation { id title }
    lastMessage { id content sender { id displayName } } } } }"""


async def run(attacker: Attacker) -> None:
    sockets, listeners = [], []
    async for number in attacker.turns():
        if number % _PER_SOCKET == 0:
            socket = await attacker.socket()
            if socket is None:
                continue
            sockets.append(socket)
            listeners.append(asyncio.create_task(attacker.listen(socket)))
        if sockets:
            await attacker.subscribe(sockets[-1], str(number), _QUERY)
    if attacker.rate:
        await asyncio.sleep(max(0.0, attacker.seconds_left))
    else:
        await _until_refused(attacker)
    for socket in sockets:
        socket.transport.abort()
    await asyncio.gather(*listeners)


async def _until_refused(attacker: Attacker) -> None:
    waited = 0.0
    while "RATE_LIMITED" not in attacker.report.codes and waited < _PATIENCE:
        await asyncio.sleep(0.1)
        waited += 0.1


ATTACK = Attack(
    "400 catch-ups of 500 sessions",
    run,
    full=400,
    short=240,
    rate=200,
    limits=Limits(refused_with="RATE_LIMITED", peak_mb=100),
)
