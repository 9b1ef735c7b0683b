"""What the tests of editing and recalling share: where a message is shown, memberships as they may be, servers that are slow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import PARTITIONS, ConversationId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from tests.api.client import LIVE_MESSAGES, SYNC, Api, Json
from tests.api.session_calls import MESSAGE

EVERYWHERE = range(PARTITIONS)

SHOWN = f"""query ($id: ID!, $conversation: ID!) {{
    message(id: $id) {{ {MESSAGE} }}
    node(id: $id) {{ ... on Message {{ {MESSAGE} }} }}
    messages(conversationId: $conversation, last: 100) {{ edges {{ node {{ {MESSAGE} }} }} }}
    conversation(id: $conversation) {{ lastMessage {{ {MESSAGE} }} session {{ lastMessage {{ {MESSAGE} }} }} }}
    session(conversationId: $conversation) {{ lastMessage {{ {MESSAGE} }} }}
    sessions {{ edges {{ node {{ conversation {{ id }} lastMessage {{ {MESSAGE} }} }} }} }}
    syncSessions {{ sessions {{ conversation {{ id }} lastMessage {{ {MESSAGE} }} }} }} }}"""


async def shown(api: Api, user: str, message: Json) -> dict[str, Json]:
    """The newest message of a conversation, by the place where it is shown."""
    conversation = message["conversationId"]
    data = await api.data(user, SHOWN, id=message["id"], conversation=conversation)
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


async def cursor(api: Api, user: str) -> str:
    """Where the user's clock stands."""
    now: str = (await api.data(user, SYNC))["syncSessions"]["cursor"]
    return now


async def missed(api: Api, user: str, since: str) -> list[Json]:
    """The message events after a cursor, without CaughtUp, which is no reset."""
    subscriber = await api.subscribe(user, LIVE_MESSAGES, since=since)
    events = [await subscriber.next()]
    while events[-1]["__typename"] != "CaughtUp":
        events.append(await subscriber.next())
    assert events.pop()["reset"] is False
    await subscriber.stop()
    return events


async def set_member(api: Api, group: str, user: str, *, role: str = "MEMBER", until: int = -1) -> None:
    """Gives a member a role, or ends the membership with a seq."""
    await api.settled()
    members = api.database["members"]
    row = members.find_one({"_id": f"{group} {user}"})
    assert row is not None
    members.update_one({"_id": row["_id"]}, {"$set": {"r": role, "i": [[row["i"][-1][0], until]]}})
    cache: Cache = api.services.app.store.cache
    keys: Keys = api.services.app.store.keys
    head, cached, _, loading = keys.conversation(ConversationId(group))
    await cache.one(Call("DEL", (head, cached, loading)))


class Slowly:
    """Holds back what a process makes of revisions that are stored."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        work = getattr(api.services.app.revisions, step)

        async def slow(*args: Any, **how: Any) -> Any:
            self.reached.set()
            await self.go_on.wait()
            return await work(*args, **how)

        monkeypatch.setattr(api.services.app.revisions, step, slow)


async def waiting(api: Api) -> int:
    """Entries in all outboxes."""
    return len(await api.services.app.store.outbox.list_waiting(EVERYWHERE, -60_000, 100))
