"""Many subscriptions with different expensive selections: a message makes the server execute each of them."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import HttpConnection, graphql_body
from tests.security.attacks.world import World

_PER_SOCKET = 100
_SEND = 'mutation ($id: ID!) { sendMessage(input: {conversationId: $id, content: "hello"}) { message { id } } }'


def subscription(number: int) -> str:
    """Return a subscription that shares its execution with no other."""
    receipts = f"a{number}: receipts(first: 100) {{ edges {{ node {{ status user {{ id displayName }} }} }} }}"
    return f"subscription {{ messageEvents {{ ... on MessageCreated {{ message {{ {receipts} }} }} }} }}"


async def prepare(world: World) -> Json:
    """Create a group of 201."""
    return {"group": await world.create_group(200)}


async def run(attacker: Attacker) -> None:
    listeners: list[asyncio.Task[None]] = []
    socket = None
    async for number in attacker.turns():
        if number % _PER_SOCKET == 0:
            socket = await attacker.socket()
            if socket is not None:
                listeners.append(asyncio.create_task(attacker.listen(socket)))
        if socket is not None:
            await attacker.subscribe(socket, str(number), subscription(number))
    connection = HttpConnection(attacker.port, attacker.token)
    for _ in range(2):
        await attacker.ask(connection, graphql_body(_SEND, {"id": attacker.given["group"]}))
    await asyncio.sleep(max(0.0, attacker.seconds_left) if attacker.rate else 1)
    connection.close()
    for listener in listeners:
        listener.cancel()


ATTACK = Attack(
    "H1 1,000 subscriptions with 100 receipts each",
    run,
    full=1_000,
    short=220,
    rate=200,
    prepare=prepare,
    limits=Limits(refused_with="RATE_LIMITED"),
    extra_seconds=15,
)
