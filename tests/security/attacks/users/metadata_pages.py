"""Pages of messages with 8 KiB of metadata each: few values, many bytes."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import World

_QUERY = """query ($id: ID!) { messages(conversationId: $id, last: 100) { edges { node {
    metadata a: metadata b: metadata replyTo { metadata a: metadata replyTo { metadata } } } } } }"""


async def prepare(world: World) -> Json:
    """Send 100 messages with metadata, most of them replies to a reply."""
    group = await world.create_group(2)
    message = {"conversationId": group, "content": "hello", "metadata": {"text": "x" * 8_000}}
    (first,) = await world.send_messages([message])
    (second,) = await world.send_messages([message | {"replyToId": first}])
    await world.send_messages([message | {"replyToId": second}] * 98)
    return {"id": group}


async def run(attacker: Attacker) -> None:
    body = graphql_body(_QUERY, attacker.given)
    await attacker.flood(lambda _: body, token=attacker.token, at_once=10)


ATTACK = Attack(
    "pages of 8 KiB of metadata", run, full=10_000, short=10, rate=20, prepare=prepare, limits=Limits(peak_mb=150)
)
