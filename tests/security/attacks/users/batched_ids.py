"""Mutations that name 200 conversations each."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import World

_READ = "mutation ($ids: [ID!]) { markManyRead(conversationIds: $ids) { id unreadCount conversation { id title } } }"
_DELIVERED = "mutation ($marks: [DeliveryMark!]!) { ackManyDelivered(marks: $marks) { id deliveredSeq } }"


async def prepare(world: World) -> Json:
    """Return the ids of 100 conversations."""
    found = await world.ask("{ sessions(first: 100) { edges { node { conversation { id } } } } }")
    return {"ids": [edge["node"]["conversation"]["id"] for edge in found["edges"]]}


async def run(attacker: Attacker) -> None:
    ids = attacker.given["ids"] * 2
    marks = [{"conversationId": id, "upToSeq": number} for number, id in enumerate(ids)]
    bodies = [graphql_body(_READ, {"ids": ids}), graphql_body(_DELIVERED, {"marks": marks})]
    await attacker.flood(lambda number: bodies[number % 2], token=attacker.token)


ATTACK = Attack(
    "200 ids in each mutation",
    run,
    full=10_000,
    short=20,
    prepare=prepare,
    limits=Limits(cpu_ms=300),
)
