"""Calls on sessions in channels."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json
from tests.api.session_calls import SESSION

FIND = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"
READ = f"mutation ($id: ID!, $seq: Int) {{ markRead(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
READ_MANY = f"mutation ($ids: [ID!]) {{ markManyRead(conversationIds: $ids) {{ {SESSION} }} }}"
ACK = f"mutation ($id: ID!, $seq: Int!) {{ ackDelivered(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
MUTE = f"""mutation ($id: ID!, $muted: Boolean!, $until: DateTime) {{
    muteSession(conversationId: $id, muted: $muted, until: $until) {{ {SESSION} }} }}"""
UNREAD = f"mutation ($id: ID!) {{ setUnread(conversationId: $id) {{ {SESSION} }} }}"
ATTENTION = "{ attention { unread mentions threads } totalUnread }"
LIVE = f"subscription {{ syncSession {{ reason reset sessions {{ {SESSION} }} }} }}"


async def session_of(api: Api, user: str, channel: str) -> Json | None:
    """Return a user's session in a channel."""
    found: Json | None = (await api.data(user, FIND, id=channel))["session"]
    return found


async def change(api: Api, user: str, query: str, **variables: Any) -> Any:
    """Make a mutation with one root field. Return its answer."""
    (answer,) = (await api.data(user, query, **variables)).values()
    return answer


async def attention_of(api: Api, user: str) -> tuple[int, int]:
    """Return a user's unread messages and mentions."""
    found = (await api.data(user, ATTENTION))["attention"]
    return found["unread"], found["mentions"]
