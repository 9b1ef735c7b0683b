"""Calls that pin messages, and list what is pinned."""

from __future__ import annotations

from tests.api.client import Api, Json, Refusal

MESSAGE = "id seq content state isPinned"
PIN = f"mutation ($id: ID!) {{ pinMessage(messageId: $id) {{ {MESSAGE} }} }}"
UNPIN = f"mutation ($id: ID!) {{ unpinMessage(messageId: $id) {{ {MESSAGE} }} }}"
PINNED = f"""query ($id: ID!, $first: Int = 50, $after: String) {{
    pinnedMessages(conversationId: $id, first: $first, after: $after) {{
        pageInfo {{ hasNextPage hasPreviousPage endCursor }} edges {{ cursor node {{ {MESSAGE} }} }} }} }}"""
PIN_COUNT = "query ($id: ID!) { channel(id: $id) { pinCount } }"
LIVE = f"""subscription ($since: Cursor, $id: ID) {{ messageEvents(since: $since, conversationId: $id) {{
    __typename
    ... on PinsChanged {{ conversationId pinCount cursor message {{ {MESSAGE} }} }}
    ... on MessageCreated {{ message {{ {MESSAGE} contentType systemEvent {{
        kind text actor {{ id }} targets {{ id }} }} replyTo {{ id content }} }} }}
    ... on MessageRecalled {{ message {{ {MESSAGE} }} }}
    ... on CaughtUp {{ cursor reset }} }} }}"""
CHANNELS = f"""subscription ($channels: [Position!]!) {{ channelEvents(channels: $channels) {{
    __typename
    ... on ChannelPins {{ conversationId pinCount rev message {{ {MESSAGE} }} }}
    ... on ChannelMessage {{ conversationId change rev message {{ {MESSAGE} contentType systemEvent {{ kind }} }} }}
    ... on AccessEnded {{ conversationId }}
    ... on ChannelCaughtUp {{ conversationId rev reset }} }} }}"""


async def pin(api: Api, user: str, message: str) -> Json:
    pinned: Json = (await api.data(user, PIN, id=message))["pinMessage"]
    return pinned


async def unpin(api: Api, user: str, message: str) -> Json:
    unpinned: Json = (await api.data(user, UNPIN, id=message))["unpinMessage"]
    return unpinned


async def pinned(api: Api, user: str, conversation: str) -> list[str]:
    """Return the contents of the pinned messages that the user sees, latest pin first."""
    listed = (await api.data(user, PINNED, id=conversation, first=100))["pinnedMessages"]
    assert all(edge["node"]["isPinned"] for edge in listed["edges"])
    return [edge["node"]["content"] for edge in listed["edges"]]


async def refused(api: Api, user: str, document: str, message: str) -> Refusal:
    return await api.expect_refusal(user, document, id=message)


async def announcements(api: Api, user: str, conversation: str) -> list[Json]:
    """Return the SYSTEM messages that announce pins."""
    history = await api.history(user, conversation)
    return [m for m in history if m["systemEvent"] and m["systemEvent"]["kind"] == "MESSAGE_PINNED"]


async def check_pins(api: Api, conversation: str) -> None:
    """Check that the marks in messages, the list in the conversation and its notes agree."""
    await api.wait_until_idle()
    row = api.database["conversations"].find_one({"_id": conversation})
    assert row is not None
    marked = {
        message["s"] for message in api.database["messages"].find({"c": conversation}) if message.get("pc", 0) % 2 == 1
    }
    listed = [each["s"] for each in row.get("pi", ())]
    assert sorted(listed) == sorted(marked)
    numbers = [each["v"] for each in row.get("pi", ())]
    assert numbers == sorted(set(numbers))
    assert "pa" not in row
    recalled = api.database["messages"].count_documents(
        {"c": conversation, "rc": {"$exists": True}, "s": {"$in": listed}}
    )
    assert recalled == 0
