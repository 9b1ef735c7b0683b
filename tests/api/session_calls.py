"""GraphQL documents about sessions, and the calls that use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

SESSION = """
    id writeSeq readSeq deliveredSeq readCount unreadCount unreadMentionCount unreadStatus muteStatus mutedUntil
    priority categoryId subBiz status activeTs writeTs peerDeliveredSeq peerReadSeq
    conversation { __typename id type title }
    lastMessage { id seq content sender { id } }
"""

MESSAGE = """
    id conversationId seq content metadata contentType state mentionsAll editCount editedAt recalledAt createdAt
    idempotencyKey sender { id displayName } authorName authorAvatarUrl mentions { id } replyTo { id seq content }
    recalledBy { id } systemEvent { kind actor { id } targets { id } text }
"""

MARK_READ = f"mutation ($id: ID!, $seq: Int) {{ markRead(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
MARK_MANY_READ = f"mutation ($ids: [ID!]) {{ markManyRead(conversationIds: $ids) {{ {SESSION} }} }}"
ACK = f"mutation ($id: ID!, $seq: Int!) {{ ackDelivered(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
ACK_MANY = f"mutation ($marks: [DeliveryMark!]!) {{ ackManyDelivered(marks: $marks) {{ {SESSION} }} }}"
DELETE = f"mutation ($id: ID!, $hard: Boolean) {{ deleteSession(conversationId: $id, hard: $hard) {{ {SESSION} }} }}"
MUTE = f"""mutation ($id: ID!, $muted: Boolean!, $until: DateTime) {{
    muteSession(conversationId: $id, muted: $muted, until: $until) {{ {SESSION} }} }}"""
PIN = f"""mutation ($id: ID!, $priority: Int = 1) {{
    pinSession(conversationId: $id, priority: $priority) {{ {SESSION} }} }}"""
SET_UNREAD = f"mutation ($id: ID!) {{ setUnread(conversationId: $id) {{ {SESSION} }} }}"
ASSIGN = f"""mutation ($ids: [ID!]!, $category: ID) {{
    assignCategory(conversationIds: $ids, categoryId: $category) {{ {SESSION} }} }}"""
SESSIONS = f"""query ($first: Int = 50, $after: String, $subBiz: String, $category: ID) {{
    sessions(first: $first, after: $after, subBiz: $subBiz, categoryId: $category) {{
    totalUnread cursor pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }}
    edges {{ cursor node {{ {SESSION} }} }} }} }}"""
CATEGORIES = "{ sessionCategories { categoryId sessionCount unreadCount writeTs lastMessage { id } } }"


class SessionCalls(ABC):
    """Calls about sessions."""

    @abstractmethod
    async def data(self, caller: Any, query: str, /, **variables: Any) -> Json:
        """Return the response's data; fail on an error."""

    async def mark_read(self, user: str, conversation: str, seq: int | None = None) -> Json:
        session: Json = (await self.data(user, MARK_READ, id=conversation, seq=seq))["markRead"]
        return session

    async def ack(self, user: str, conversation: str, seq: int) -> Json:
        session: Json = (await self.data(user, ACK, id=conversation, seq=seq))["ackDelivered"]
        return session

    async def mark_many_read(self, user: str, *conversations: str) -> list[Json]:
        """Mark conversations as read."""
        sessions: list[Json] = (await self.data(user, MARK_MANY_READ, ids=list(conversations)))["markManyRead"]
        return sessions

    async def mark_all_read(self, user: str) -> list[Json]:
        """Mark everything that is unread as read."""
        sessions: list[Json] = (await self.data(user, MARK_MANY_READ))["markManyRead"]
        return sessions

    async def ack_many(self, user: str, *marks: tuple[str, int]) -> list[Json]:
        """Acknowledge the delivery of messages up to a seq in each conversation."""
        given = [{"conversationId": conversation, "upToSeq": seq} for conversation, seq in marks]
        sessions: list[Json] = (await self.data(user, ACK_MANY, marks=given))["ackManyDelivered"]
        return sessions

    async def delete(self, user: str, conversation: str, hard: bool = False) -> Json:
        session: Json = (await self.data(user, DELETE, id=conversation, hard=hard))["deleteSession"]
        return session

    async def mute(self, user: str, conversation: str, until: int | None = None) -> Json:
        """Mute the session, until `until` (ms) if given."""
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
        """Put sessions into a category, or out of it if the category is None."""
        answer = await self.data(user, ASSIGN, ids=list(conversations), category=category)
        sessions: list[Json] = answer["assignCategory"]
        return sessions

    async def categories(self, user: str) -> list[Json]:
        categories: list[Json] = (await self.data(user, CATEGORIES))["sessionCategories"]
        return categories

    async def session(self, user: str, conversation: str) -> Json | None:
        query = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"
        session: Json | None = (await self.data(user, query, id=conversation))["session"]
        return session

    async def own_session(self, user: str, conversation: str) -> Json:
        """Return a session that the user has; fail if there is none."""
        session = await self.session(user, conversation)
        assert session is not None
        return session

    async def unread(self, user: str, conversation: str) -> int:
        """Return the unread count of the user's session."""
        count: int = (await self.own_session(user, conversation))["unreadCount"]
        return count

    async def total_unread(self, user: str) -> int:
        total: int = (await self.data(user, "{ totalUnread }"))["totalUnread"]
        return total

    async def sessions(
        self, user: str, page: int = 100, *, sub_biz: str | None = None, category: str | None = None
    ) -> list[Json]:
        """Return the whole list in order: the main list, that of a subBiz, or that of a category."""
        sessions: list[Json] = []
        after = None
        while True:
            arguments = {"first": page, "after": after, "subBiz": sub_biz, "category": category}
            page_data = (await self.data(user, SESSIONS, **arguments))["sessions"]
            sessions += [edge["node"] for edge in page_data["edges"]]
            after = page_data["pageInfo"]["endCursor"]
            if not page_data["pageInfo"]["hasNextPage"]:
                return sessions

    async def titles(self, user: str, page: int = 100, **filters: str) -> list[str]:
        """Return the titles of a list in order."""
        return [session["conversation"]["title"] for session in await self.sessions(user, page, **filters)]

    async def all_sessions(self, user: str) -> dict[str, Json]:
        """Return all valid sessions by conversation: the main list, and the sessions behind its gateways."""
        sessions = await self.sessions(user)
        gateways = [session["conversation"] for session in sessions if session["conversation"]["type"] == "SUB_BIZ"]
        for gateway in gateways:
            sessions += await self.sessions(user, sub_biz=gateway["title"])
        return {session["conversation"]["id"]: session for session in sessions}


def iso(ms: int) -> str:
    """Format a time in the form that the contract defines."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03}Z"


@dataclass(frozen=True)
class SessionCall:
    """One mutation: the reason in its event, and the mutations that must come first so that it changes something."""

    query: str
    reason: str
    variables: Json = field(default_factory=dict)
    before: tuple[str, ...] = ()
    moves_write_ts: bool = False

    @property
    def field(self) -> str:
        return "conversationIds" if self._takes_many else "conversationId"

    @property
    def _takes_many(self) -> bool:
        return self.query in (ASSIGN, MARK_MANY_READ)

    def variables_for(self, conversation: str) -> Json:
        target: Json = {"ids": [conversation]} if self._takes_many else {"id": conversation}
        return self.variables | target

    async def run(self, api: SessionCalls, user: str, conversation: str) -> Json:
        """Run the mutation. Return the session that it answers with."""
        (answer,) = (await api.data(user, self.query, **self.variables_for(conversation))).values()
        (session,) = answer if isinstance(answer, list) else [answer]
        assert isinstance(session, dict)
        return session


CALLS = {
    "reading": SessionCall(MARK_READ, "READ"),
    "reading many": SessionCall(MARK_MANY_READ, "READ"),
    "reading in part": SessionCall(MARK_READ, "READ", {"seq": 1}),
    "deleting": SessionCall(DELETE, "DELETE", {"hard": False}),
    "hard deleting": SessionCall(DELETE, "DELETE", {"hard": True}, before=("pinning", "muting")),
    "hard deleting a deleted session": SessionCall(DELETE, "DELETE", {"hard": True}, before=("muting", "deleting")),
    "muting": SessionCall(MUTE, "MUTE", {"muted": True}),
    "muting for a while": SessionCall(MUTE, "MUTE", {"muted": True, "until": "2200-01-01T00:00:00.000Z"}),
    "muting without an end": SessionCall(MUTE, "MUTE", {"muted": True}, before=("muting for a while",)),
    "unmuting": SessionCall(MUTE, "UNMUTE", {"muted": False}, before=("muting",)),
    "pinning": SessionCall(PIN, "PIN", {"priority": 7}, moves_write_ts=True),
    "changing the priority": SessionCall(PIN, "PIN", {"priority": 1000}, before=("pinning",), moves_write_ts=True),
    "unpinning": SessionCall(PIN, "UNPIN", {"priority": 0}, before=("pinning",)),
    "marking unread": SessionCall(SET_UNREAD, "UNREAD", moves_write_ts=True),
    "assigning": SessionCall(ASSIGN, "CATEGORY", {"category": "work"}),
    "changing the category": SessionCall(ASSIGN, "CATEGORY", {"category": "home"}, before=("assigning",)),
    "removing the category": SessionCall(ASSIGN, "CATEGORY", {"category": None}, before=("assigning",)),
}
"""Mutations of the caller's session, by what they do: what holds for all of them is tested for each."""

FIRST_OF_EACH = tuple({call.query: name for name, call in reversed(CALLS.items())}.values())
"""One call of each mutation."""

OUT_OF_RANGE = [
    (MARK_READ, {"seq": -1}, "upToSeq"),
    (MUTE, {"muted": True, "until": "2020-01-01T00:00:00.000Z"}, "until"),
    (MUTE, {"muted": False, "until": "2200-01-01T00:00:00.000Z"}, "until"),
    (PIN, {"priority": 1001}, "priority"),
    (PIN, {"priority": -1}, "priority"),
    (ASSIGN, {"category": ""}, "categoryId"),
]
"""Mutations with variables that are refused, and the field that the refusal names."""
