"""Many subscriptions with different expensive selections: a message makes the server execute each of them."""

from __future__ import annotations

import asyncio

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import HttpConnection, graphql_body
from tests.security.attacks.world import World

_PER_SOCKET = 100
_PAUSE_SECONDS = 0.1
_SEND = 'mutation ($id: ID!) { sendMessage(input: {conversationId: $id, content: "hello"}) { message { id } } }'
_CONDITIONS = "abcdefgh"


def subscription(number: int) -> str:
    """Return a subscription that shares its execution with no other."""
    return f"subscription {{ {_selection(f'a{number}: receipts')} }}"


def subscription_with_conditions() -> str:
    """Return a subscription whose executions are shared only if the values of all its variables are the same."""
    variables = ", ".join(f"${name}: Boolean!" for name in _CONDITIONS)
    fields = " ".join(f"{name}: id @include(if: ${name})" for name in _CONDITIONS)
    return f"subscription ({variables}) {{ {_selection('receipts', fields)} }}"


def conditions(number: int) -> dict[str, bool]:
    """Return the variables, different ones for each number below 256."""
    return {name: bool(number >> bit & 1) for bit, name in enumerate(_CONDITIONS)}


def _selection(receipts: str, fields: str = "") -> str:
    receipts += "(first: 100) { edges { node { status user { id displayName } } } }"
    return f"messageEvents {{ ... on MessageCreated {{ message {{ {fields} {receipts} }} }} }}"


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
        if socket is not None and attacker.rate:
            await attacker.subscribe(socket, str(number), subscription(number))
        elif socket is not None:
            # Preparing so many documents would take as long as the machine is busy.
            await attacker.subscribe(socket, str(number), subscription_with_conditions(), **conditions(number))
    connection = HttpConnection(attacker.port, attacker.token)
    for _ in range(2):
        await attacker.ask(connection, graphql_body(_SEND, {"id": attacker.given["group"]}))
    for _ in range(int(attacker.seconds_left / _PAUSE_SECONDS)):
        if not attacker.rate and attacker.report.codes["RATE_LIMITED"]:
            break
        await asyncio.sleep(_PAUSE_SECONDS)
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
