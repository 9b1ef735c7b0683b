"""Typing indicators in a group of 201, as fast as they are answered."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import World

_START = "mutation ($id: ID!) { startTyping(conversationId: $id) }"
_STOP = "mutation ($id: ID!) { stopTyping(conversationId: $id) }"


async def prepare(world: World) -> Json:
    return {"id": await world.create_group(200)}


async def run(attacker: Attacker) -> None:
    bodies = [graphql_body(_START, attacker.given), graphql_body(_STOP, attacker.given)]
    await attacker.flood(lambda number: bodies[number % 2], token=attacker.token)


ATTACK = Attack("typing", run, full=20_000, short=60, rate=200, prepare=prepare, limits=Limits(cpu_ms=40))
