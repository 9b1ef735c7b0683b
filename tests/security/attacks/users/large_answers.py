"""Legal queries of 50,000 values, ten at a time: others must not wait for them."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import World

QUERY = """query ($id: ID!) { messages(conversationId: $id, last: 95) { edges { node { receipts(first: 85) {
    edges { node { status user { id displayName } } } } } } } }"""


async def prepare(world: World) -> Json:
    """Create a group of 201 with messages of the attacker."""
    group = await world.create_group(200)
    await world.send_messages([{"conversationId": group, "content": "hello"}] * (40 if world.is_short else 95))
    return {"group": group}


async def run(attacker: Attacker) -> None:
    body = graphql_body(QUERY, {"id": attacker.given["group"]})
    await attacker.flood(lambda _: body, token=attacker.token, at_once=10)


ATTACK = Attack("M2 50,000 values, 10 at a time", run, full=10_000, short=4, prepare=prepare)
