"""A short query with a huge answer: lists without a page inside replies inside replies."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import MEMBERS, World

_LEVELS = 6
_MENTIONS = 400


def query() -> str:
    """Return a query of about 400 characters."""
    selection = "mentions { id displayName }"
    for _ in range(_LEVELS):
        selection = f"mentions {{ id displayName }} replyTo {{ {selection} }}"
    return f"query ($id: ID!) {{ messages(conversationId: $id, last: 50) {{ edges {{ node {{ {selection} }} }} }} }}"


async def prepare(world: World) -> Json:
    """Send messages that mention 400 members, most of them under six replies."""
    group = await world.create_group(_MENTIONS)
    message = {"conversationId": group, "content": "hello", "mentions": MEMBERS[:_MENTIONS]}
    for _ in range(_LEVELS):
        (message["replyToId"],) = await world.send_messages([message])
    await world.send_messages([message] * 40)
    return {"group": group}


async def run(attacker: Attacker) -> None:
    body = graphql_body(query(), {"id": attacker.given["group"]})
    await attacker.flood(lambda _: body, token=attacker.token, at_once=1)


ATTACK = Attack(
    "H4 400 mentions under 6 replies",
    run,
    full=10,
    short=1,
    rate=1,
    prepare=prepare,
    limits=Limits(answer_bytes=3_000_000, cpu_ms=500),
)
