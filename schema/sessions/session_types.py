"""The GraphQL types of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, cast

import strawberry

from resolvers.base.pages import Edge
from resolvers.sessions import session_lists
from resolvers.sessions.attention import Attention
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import Cursor, DateTime, Timestamp
from schema.compiler import prefetched_by, reads, then
from schema.messages.message_types import MessageType, message_from
from store.base.ids import ConversationId
from store.messages.message import Message
from store.sessions.fields import NotificationLevel
from store.sessions.session import Session
from store.sessions.session_store import Category

if TYPE_CHECKING:
    from schema.conversations.conversation_types import Conversation

ConversationRef = Annotated["Conversation", strawberry.lazy("schema.conversations.conversation_types")]
"""The only reference from a type to a package above its own. `Context.load_conversation` makes the object."""


@strawberry.enum
class SessionStatus(Enum):
    # The values are those of `Session.valid`.
    ACTIVE = True
    INVALID = False


def _prefetch_conversations(context: Context, sessions: Sequence[SessionType]) -> asyncio.Future[None] | None:
    return context.prefetch_conversations([session.record.conversation for session in sessions])


def _prefetch_last_messages(context: Context, sessions: Sequence[SessionType]) -> asyncio.Future[None] | None:
    shown = [session.record.shown_conversation for session in sessions]
    return context.loaders.prefetch_last_messages([conversation for conversation in shown if conversation is not None])


def _prefetch_inherited_levels(context: Context, sessions: Sequence[SessionType]) -> asyncio.Future[None] | None:
    inheriting = [session.record.conversation for session in sessions if session.record.notification_level is None]
    return context.loaders.inherited_levels.prefetch(inheriting) if inheriting else None


@strawberry.type(name="Session", description="One user's context of one conversation. Overwritten, never appended.")
class SessionType(Node):
    record: strawberry.Private[Session]
    id: strawberry.ID = reads("record.public_id")
    write_seq: int = reads(
        "record.write_seq",
        description="Seq of the conversation's newest message, and how far this user has read and received.",
    )
    read_seq: int = reads("record.read_seq")
    delivered_seq: int = reads("record.delivered_seq")
    read_count: int = reads("record.read_count", description="Messages up to readSeq that count as unread until read.")
    unread_count: int = reads(
        "record.unread_count",
        description="Messages after readSeq that are visible to the user, not their own and not SYSTEM. A recalled "
        "message counts until it is read.",
    )
    unread_mention_count: int = reads(
        "record.unread_mention_count",
        description="Of those, the ones that mention the user, a role of theirs, or everybody. The newest 1,000 "
        "unread messages are counted.",
    )
    unread_status: bool = reads("record.unread_status", description="Set by setUnread: show a dot without a number.")
    mute_status: bool = reads("record.muted")
    muted_until: DateTime | None = reads("record.muted_until_ms")
    priority: int = reads("record.priority")
    category_id: strawberry.ID | None = reads("record.category")
    sub_biz: str | None = reads("record.sub_biz")
    status: SessionStatus = reads("record.valid")
    active_ts: Timestamp = reads(
        "record.active_ts",
        description="Moved by any change; strictly increasing over all changes of one user. Synchronisation reads "
        "this.",
    )
    write_ts: Timestamp = reads(
        "record.write_ts",
        description="Moved only by new messages that are not SYSTEM, by pinning and by setUnread. Clients sort by "
        "this.",
    )
    peer_delivered_seq: int | None = reads(
        "record.shown_peer_delivered_seq", description="PRIVATE only: how far the other person has received and read."
    )
    peer_read_seq: int | None = reads("record.shown_peer_read_seq")

    @strawberry.field(
        description="The notification level in force here.", metadata=prefetched_by(_prefetch_inherited_levels)
    )
    def notifications(self, info: Info) -> NotificationLevel:
        own, inherited = self.record.notification_level, info.context.loaders.inherited_levels
        return cast(NotificationLevel, own or inherited.find(self.record.conversation))

    @strawberry.field(
        description="For an INVALID session: still answers id, type and last title. For a dismissed group: status "
        "DISSOLVED and its last owner.",
        metadata=prefetched_by(_prefetch_conversations),
    )
    def conversation(self, info: Info) -> ConversationRef:
        return info.context.load_conversation(self.record.conversation)

    @strawberry.field(metadata=prefetched_by(_prefetch_last_messages))
    def last_message(self, info: Info) -> MessageType | None:
        shown = self.record.shown_conversation
        return load_last_message(info.context, shown) if shown is not None else None


def session_from(session: Session) -> SessionType:
    """Return the GraphQL object of a session."""
    return SessionType(record=session)


def load_last_message(context: Context, conversation: ConversationId) -> Any:
    """Return the newest message of a conversation that the viewer may read, or a Deferred of it."""
    return then(context.loaders.last_message(conversation), _message_or_none)


def _message_or_none(message: Message | None) -> MessageType | None:
    return message_from(message) if message is not None else None


@strawberry.type
class SessionEdge:
    edge: strawberry.Private[Edge[Session]]
    node: SessionType
    cursor: str = reads("edge.cursor")


@strawberry.type(
    description="totalUnread: over all of the caller's sessions. cursor: synchronise from here after showing this page."
)
class SessionConnection:
    edges: list[SessionEdge]
    page_info: PageInfo
    total_unread: int
    cursor: Cursor


@strawberry.type
class SessionDelta:
    sessions: list[SessionType]
    cursor: Cursor
    has_more: bool
    total_unread: int
    reset: bool


@strawberry.type(
    name="Attention",
    description="What should light a badge. unread: totalUnread. mentions: unread mentions of the caller by name or "
    "role, everywhere, where not muted. threads: followed threads with unread replies. Derived from read positions, "
    "so reading on one device clears it on all.",
)
class AttentionType:
    record: strawberry.Private[Attention]
    unread: int = reads("record.unread")
    mentions: int = reads("record.mentions")
    threads: int = reads("record.threads")


@strawberry.type
class SessionCategory:
    last_message_in: strawberry.Private[ConversationId]
    category_id: strawberry.ID
    session_count: int
    unread_count: int
    write_ts: Timestamp

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        return load_last_message(info.context, self.last_message_in)


def session_connection(listed: session_lists.SessionPage) -> SessionConnection:
    """Return a page of sessions as a Relay connection."""
    return SessionConnection(
        edges=[SessionEdge(edge=edge, node=session_from(edge.node)) for edge in listed.page.edges],
        page_info=PageInfo(page=listed.page),
        total_unread=listed.total_unread,
        cursor=Cursor(listed.cursor),
    )


def session_delta(context: Context, delta: session_lists.SessionChanges) -> SessionDelta:
    """Return the GraphQL object of the changes since a cursor."""
    return SessionDelta(
        sessions=[session_from(session) for session in delta.sessions],
        cursor=Cursor(session_lists.sync_cursor(context.app, context.viewer, delta.cursor)),
        has_more=delta.has_more,
        total_unread=delta.total_unread,
        reset=delta.reset,
    )


def category_from(category: Category) -> SessionCategory:
    """Return the GraphQL object of a category."""
    return SessionCategory(
        last_message_in=category.newest,
        category_id=strawberry.ID(category.name),
        session_count=category.session_count,
        unread_count=category.unread_count,
        write_ts=Timestamp(category.write_ts),
    )


async def find_session(context: Context, conversation: str) -> SessionType | None:
    """Return the viewer's session of a conversation, or None."""
    found = await session_lists.find_session(context.app, context.viewer, conversation)
    return session_from(found) if found else None
