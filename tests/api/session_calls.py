"""What clients ask about sessions, and how they change them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

SESSION = """
    id writeSeq readSeq deliveredSeq unreadCount unreadMentionCount unreadStatus muteStatus mutedUntil priority categoryId
    subBiz status activeTs writeTs peerDeliveredSeq peerReadSeq
    conversation { __typename id type title }
    lastMessage { id seq content sender { id } }
"""

MESSAGE = """
    id conversationId seq content contentType state mentionsAll editCount editedAt recalledAt createdAt idempotencyKey
    sender { id displayName } mentions { id } replyTo { id seq content }
"""

MARK_READ = f"mutation ($id: ID!, $seq: Int) {{ markRead(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
ACK = f"mutation ($id: ID!, $seq: Int!) {{ ackDelivered(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
DELETE = f"mutation ($id: ID!, $hard: Boolean) {{ deleteSession(conversationId: $id, hard: $hard) {{ {SESSION} }} }}"
MUTE = f"""mutation ($id: ID!, $muted: Boolean!, $until: DateTime) {{
    muteSession(conversationId: $id, muted: $muted, until: $until) {{ {SESSION} }} }}"""
PIN = f"mutation ($id: ID!, $priority: Int = 1) {{ pinSession(conversationId: $id, priority: $priority) {{ {SESSION} }} }}"
SET_UNREAD = f"mutation ($id: ID!) {{ setUnread(conversationId: $id) {{ {SESSION} }} }}"
ASSIGN = f"""mutation ($ids: [ID!]!, $category: ID) {{
    assignCategory(conversationIds: $ids, categoryId: $category) {{ {SESSION} }} }}"""
SESSIONS = f"""query ($first: Int = 50, $after: String, $subBiz: String, $category: ID) {{
    sessions(first: $first, after: $after, subBiz: $subBiz, categoryId: $category) {{
    totalUnread cursor pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} edges {{ cursor node {{ {SESSION} }} }} }} }}"""
CATEGORIES = "{ sessionCategories { categoryId sessionCount unreadCount writeTs lastMessage { id } } }"


class SessionCalls(ABC):
    """The calls about sessions, for whoever can run operations."""

    @abstractmethod
    async def data(self, who: Any, query: str, **variables: Any) -> Json:
        """The response's data; fails on an error."""

    async def mark_read(self, user: str, conversation: str, seq: int | None = None) -> Json:
        session: Json = (await self.data(user, MARK_READ, id=conversation, seq=seq))["markRead"]
        return session

    async def ack(self, user: str, conversation: str, seq: int) -> Json:
        session: Json = (await self.data(user, ACK, id=conversation, seq=seq))["ackDelivered"]
        return session

    async def delete(self, user: str, conversation: str, hard: bool = False) -> Json:
        session: Json = (await self.data(user, DELETE, id=conversation, hard=hard))["deleteSession"]
        return session

    async def mute(self, user: str, conversation: str, until: int | None = None) -> Json:
        """Mutes, until a moment (ms) if one is given."""
        end = iso(until) if until is not None else None
        session: Json = (await self.data(user, MUTE, id=conversation, muted=True, until=end))["muteSession"]
        return session

    async def unmute(self, user: str, conversation: str) -> Json:
        session: Json = (await self.data(user, MUTE, id=conversation, muted=False))["muteSession"]
        return session

    async def pin(self, user: str, conversation: str, priority: int = 1) -> Json:
        session: Json = (await self.data(user, PIN, id=conversation, priority=priority))["pinSession"]
        return session

    async def set_unread(self, user: str, conversation: str) -> Json:
        session: Json = (await self.data(user, SET_UNREAD, id=conversation))["setUnread"]
        return session

    async def assign(self, user: str, category: str | None, *conversations: str) -> list[Json]:
        """Puts sessions into a folder, or takes them out."""
        answer = await self.data(user, ASSIGN, ids=list(conversations), category=category)
        sessions: list[Json] = answer["assignCategory"]
        return sessions

    async def categories(self, user: str) -> list[Json]:
        found: list[Json] = (await self.data(user, CATEGORIES))["sessionCategories"]
        return found

    async def session(self, user: str, conversation: str) -> Json | None:
        query = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"
        session: Json | None = (await self.data(user, query, id=conversation))["session"]
        return session

    async def own(self, user: str, conversation: str) -> Json:
        """A session that the user has."""
        session = await self.session(user, conversation)
        assert session is not None
        return session

    async def unread(self, user: str, conversation: str) -> int:
        """How many messages of the conversation the user's badge shows."""
        count: int = (await self.own(user, conversation))["unreadCount"]
        return count

    async def total_unread(self, user: str) -> int:
        total: int = (await self.data(user, "{ totalUnread }"))["totalUnread"]
        return total

    async def sessions(
        self, user: str, page: int = 100, *, sub_biz: str | None = None, category: str | None = None
    ) -> list[Json]:
        """The whole list, in order: the main one, that of a subBiz, or a folder."""
        found: list[Json] = []
        after = None
        while True:
            asked = {"first": page, "after": after, "subBiz": sub_biz, "category": category}
            listed = (await self.data(user, SESSIONS, **asked))["sessions"]
            found += [edge["node"] for edge in listed["edges"]]
            after = listed["pageInfo"]["endCursor"]
            if not listed["pageInfo"]["hasNextPage"]:
                return found

    async def titles(self, user: str, page: int = 100, **of: str) -> list[str]:
        """The titles of a list, in order."""
        return [session["conversation"]["title"] for session in await self.sessions(user, page, **of)]

    async def all_sessions(self, user: str) -> dict[str, Json]:
        """Everything valid by conversation: the main list, and what its gateways stand for."""
        found = await self.sessions(user)
        gateways = [session["conversation"] for session in found if session["conversation"]["type"] == "SUB_BIZ"]
        for gateway in gateways:
            found += await self.sessions(user, sub_biz=gateway["title"])
        return {session["conversation"]["id"]: session for session in found}


def iso(ms: int) -> str:
    """A moment as the contract spells it."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03}Z"
