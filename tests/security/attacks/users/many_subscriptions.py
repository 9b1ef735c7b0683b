"""One WebSocket that starts thousands of subscriptions."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker

QUERY = "subscription { messageEvents { __typename } }"


async def run(attacker: Attacker) -> None:
    listener, socket = None, None
    async for number in attacker.turns():
        if socket is None or socket.close_code is not None:
            socket = await attacker.socket()
            if socket is None:
                continue
            listener = asyncio.create_task(attacker.listen(socket))
        await attacker.subscribe(socket, str(number), QUERY)
    await asyncio.sleep(0.5)
    if socket is not None and listener is not None:
        await socket.close()
        await listener


ATTACK = Attack(
    "subscriptions without end on one WebSocket",
    run,
    full=20_000,
    short=300,
    rate=500,
    limits=Limits(refused_with="RATE_LIMITED", kept_mb=30),
)
