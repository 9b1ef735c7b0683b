"""Helpers for the tests of editing and recalling."""

from __future__ import annotations

from store.base.ids import PARTITIONS, ConversationId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from tests.api.client import Api, Json
from tests.api.session_calls import MESSAGE

ALL_PARTITIONS = range(PARTITIONS)

ALL_FIELDS = f"""query ($id: ID!, $conversation: ID!) {{
    message(id: $id) {{ {MESSAGE} }}
    node(id: $id) {{ ... on Message {{ {MESSAGE} }} }}
    messages(conversationId: $conversation, last: 100) {{ edges {{ node {{ {MESSAGE} }} }} }}
    conversation(id: $conversation) {{ lastMessage {{ {MESSAGE} }} session {{ lastMessage {{ {MESSAGE} }} }} }}
    session(conversationId: $conversation) {{ lastMessage {{ {MESSAGE} }} }}
    sessions {{ edges {{ node {{ conversation {{ id }} lastMessage {{ {MESSAGE} }} }} }} }}
    syncSessions {{ sessions {{ conversation {{ id }} lastMessage {{ {MESSAGE} }} }} }} }}"""


async def read_everywhere(api: Api, user: str, message: Json) -> dict[str, Json]:
    """Return the newest message of a conversation as each field that shows it returns it."""
    conversation = message["conversationId"]
    data = await api.data(user, ALL_FIELDS, id=message["id"], conversation=conversation)
    (listed,) = [edge["node"] for edge in data["messages"]["edges"] if edge["node"]["id"] == message["id"]]
    sessions = [edge["node"] for edge in data["sessions"]["edges"]] + data["syncSessions"]["sessions"]
    newest = [session["lastMessage"] for session in sessions if session["conversation"]["id"] == conversation]
    assert len(newest) == 2
    return {
        "message": data["message"],
        "node": data["node"],
        "history": listed,
        "conversation": data["conversation"]["lastMessage"],
        "session of the conversation": data["conversation"]["session"]["lastMessage"],
        "session": data["session"]["lastMessage"],
        "list": newest[0],
        "synchronisation": newest[1],
    }


async def set_member(api: Api, group: str, user: str, *, role: str = "MEMBER", until: int = -1) -> None:
    """Set the role of a member, or end the membership at a seq."""
    await api.wait_until_idle()
    members = api.database["members"]
    row = members.find_one({"_id": f"{group} {user}"})
    assert row is not None
    members.update_one({"_id": row["_id"]}, {"$set": {"r": role, "i": [[row["i"][-1][0], until]]}})
    cache: Cache = api.services.app.store.cache
    keys: Keys = api.services.app.store.keys
    head, cached, _, loading = keys.conversation(ConversationId(group))
    await cache.one(Call("DEL", (head, cached, loading)))


async def count_outbox_entries(api: Api) -> int:
    """Return the number of entries in all outboxes."""
    return len(await api.services.app.store.outbox.list_waiting(ALL_PARTITIONS, -60_000, 100))
