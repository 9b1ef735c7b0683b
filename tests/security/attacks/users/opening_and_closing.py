"""Subscriptions that end as soon as they have begun, again and again."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import orjson
from websockets.exceptions import ConnectionClosed

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.users.many_subscriptions import QUERY


async def run(attacker: Attacker) -> None:
    socket = await attacker.socket()
    if socket is None:
        return
    listener = asyncio.create_task(attacker.listen(socket))
    async for number in attacker.turns():
        await attacker.subscribe(socket, str(number), QUERY)
        with suppress(ConnectionClosed):
            await socket.send(orjson.dumps({"id": str(number), "type": "complete"}).decode())
    await asyncio.sleep(0.5)
    await socket.close()
    await listener


ATTACK = Attack(
    "subscriptions opened and closed",
    run,
    full=20_000,
    short=200,
    rate=500,
    limits=Limits(cpu_ms=20, kept_mb=30),
)
