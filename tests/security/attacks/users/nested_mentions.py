"""A short query with a huge answer: lists without a page inside replies inside replies."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import MEMBERS, World

_LEVELS = 6


def query() -> str:
    """Return a query of about 400 characters."""
    selection = "mentions { id displayName }"
    for _ in range(_LEVELS):
        selection = f"mentions {{ id displayName }} replyTo {{ {selection} }}"
    return f"query ($id: ID!) {{ messages(conversationId: $id, last: 50) {{ edges {{ node {{ {selection} }} }} }} }}"


async def prepare(world: World) -> Json:
    """Send messages with many mentions, most of them under six replies."""
    members, messages = (150, 35) if world.is_short else (len(MEMBERS), 40)
    group = await world.create_group(members)
    message = {"conversationId": group, "content": "hello", "mentions": MEMBERS[:members]}
    for _ in range(_LEVELS):
        (message["replyToId"],) = await world.send_messages([message])
    for _ in range(messages // 5):
        await world.send_messages([message] * 5)
    return {"group": group}


async def run(attacker: Attacker) -> None:
    body = graphql_body(query(), {"id": attacker.given["group"]})
    await attacker.flood(lambda _: body, token=attacker.token, at_once=1)


ATTACK = Attack(
    "H4 1,000 mentions under 6 replies",
    run,
    full=10,
    short=1,
    rate=1,
    prepare=prepare,
    limits=Limits(answer_bytes=1_300_000, cpu_ms=500),
)
