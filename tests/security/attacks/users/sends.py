"""Messages to a group of 201, above the rate of one user."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import World

_SEND = 'mutation ($id: ID!) { sendMessage(input: {conversationId: $id, content: "hello"}) { message { id } } }'


async def prepare(world: World) -> Json:
    return {"id": await world.create_group(200)}


async def run(attacker: Attacker) -> None:
    body = graphql_body(_SEND, attacker.given)
    await attacker.flood(lambda _: body, token=attacker.token)


ATTACK = Attack("messages to a group of 201", run, full=20_000, short=60, rate=300, prepare=prepare, limits=Limits())
