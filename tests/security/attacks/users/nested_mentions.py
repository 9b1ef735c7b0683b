"""A short query with a huge answer: lists without a page inside replies inside replies."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Json, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.http_client import graphql_body
from tests.security.attacks.world import MEMBERS, World

_LEVELS = 6
_SEND = """mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"""


def query() -> str:
    """Return a query of about 400 characters."""
    selection = "mentions { id displayName }"
    for _ in range(_LEVELS):
        selection = f"mentions {{ id displayName }} replyTo {{ {selection} }}"
    return f"query ($id: ID!) {{ messages(conversationId: $id, last: 50) {{ edges {{ node {{ {selection} }} }} }} }}"


async def prepare(world: World) -> Json:
    """Send messages that mention 1,200 members, each a reply to the one before."""
    group = await world.create_group(len(MEMBERS))
    given = {"conversationId": group, "content": "hello", "mentions": MEMBERS}
    for _ in range(50):
        given["replyToId"] = (await world.ask(_SEND, input=given))["message"]["id"]
    return {"group": group}


async def run(attacker: Attacker) -> None:
    body = graphql_body(query(), {"id": attacker.given["group"]})
    await attacker.flood(lambda _: body, token=attacker.token, at_once=1)


ATTACK = Attack(
    "H4 1,200 mentions under 6 replies",
    run,
    full=10,
    short=1,
    rate=1,
    prepare=prepare,
    limits=Limits(answer_bytes=3_000_000, cpu_ms=500),
)
