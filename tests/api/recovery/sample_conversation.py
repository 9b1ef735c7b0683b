"""A conversation whose keys tests evict from Redis, and checks of its counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import (
    MESSAGE,
    Api,
    Json,
    private_id,
)
from tests.api.session_calls import SESSION

KEYS = ("head", "members", "outbox", "loading")

GROUP = f"""query ($id: ID!) {{ group(id: $id) {{ id title memberCount viewerRole visibleRanges {{ fromSeq toSeq }}
    owner {{ id }} session {{ {SESSION} }} lastMessage {{ {MESSAGE} }}
    members(first: 50) {{ edges {{ node {{ user {{ id }} role }} }} }} }} }}"""


async def evict(api: Api, conversation: str, *names: str) -> None:
    """Delete some keys of a conversation, whether they exist or not."""
    keys = dict(zip(KEYS, api.services.app.store.keys.conversation(ConversationId(conversation)), strict=True))
    await api.services.app.store.cache.one(Call("DEL", tuple(keys[name] for name in names)))


def expected_unread(messages: Sequence[Json], user: str, read_seq: int) -> int:
    """Return the unread count by counting the messages."""
    return sum(
        message["seq"] > read_seq and message["contentType"] != "SYSTEM" and message["sender"]["id"] != user
        for message in messages
    )


async def check_counts(api: Api, conversation: str, users: Iterable[str]) -> None:
    """Check that unread counts equal the number of unread messages, and writeSeq the newest message's seq."""
    for user in users:
        messages = await api.history(user, conversation)
        session = await api.session(user, conversation)
        assert session is not None
        assert session["unreadCount"] == expected_unread(messages, user, session["readSeq"]), user
        assert session["writeSeq"] == messages[-1]["seq"], user


async def check_stored(api: Api, conversation: str) -> int:
    """Check that the stored messages have no gap in seq and the right n. Return their number."""
    messages = (await api.stored_documents())["messages"].values()
    rows = sorted((row for row in messages if row["c"] == conversation), key=lambda row: int(row["s"]))
    assert [row["s"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["n"] for row in rows] == list(accumulate(row["k"] != "S" for row in rows))
    return len(rows)


class SampleConversation:
    """A conversation with a few messages, in a group also a SYSTEM message."""

    def __init__(self, api: Api, kind: str) -> None:
        self.api = api
        self.kind = kind
        self.users: list[str] = []
        self.id = ""

    async def create(self) -> None:
        self.users = await self.api.create_users("alice", "bob", "carol", "dave", "erin")
        alice, bob, carol, dave, _ = self.users
        if self.kind == "private":
            self.id = private_id(alice, bob)
        else:
            self.id = await self.api.create_group(alice, bob, carol)
        for _ in range(3):
            await self.api.send(alice, bob if self.kind == "private" else self.id)
        await self.api.send(bob, self.id)
        if self.kind == "group":
            await self.api.invite(alice, self.id, dave)
        await self.api.send(alice, self.id, "newest")
        for user in self.members:
            await self.api.sessions(user)
        await self.api.wait_until_idle()

    @property
    def members(self) -> list[str]:
        return self.users[: 4 if self.kind == "group" else 2]
