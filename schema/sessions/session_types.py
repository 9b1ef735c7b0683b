"""The GraphQL types of sessions."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from resolvers.sessions import session_lists
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo, page_info
from schema.base.scalars import Cursor, DateTime, Timestamp
from schema.compiler import then
from schema.messages.message_types import MessageType, message_from
from store.base.ids import ConversationId, ConversationKind, kind_of, session_id
from store.sessions.session import Session
from store.sessions.session_store import Category

if TYPE_CHECKING:
    from schema.conversations.conversation_types import Conversation

ConversationRef = Annotated["Conversation", strawberry.lazy("schema.conversations.conversation_types")]
"""The only reference from a type to a package above its own. `Context.load_conversation` makes the object."""


@strawberry.enum
class SessionStatus(Enum):
    ACTIVE = "ACTIVE"
    INVALID = "INVALID"


@strawberry.type(name="Session", description="One user's context of one conversation. Overwritten, never appended.")
class SessionType(Node):
    conversation_id: strawberry.Private[ConversationId]
    last_message_in: strawberry.Private[ConversationId | None]
    write_seq: int = strawberry.field(
        description="Seq of the conversation's newest message, and how far this user has read and received."
    )
    read_seq: int
    delivered_seq: int
    unread_count: int = strawberry.field(
        description="Messages after readSeq that are visible to the user, not their own and not SYSTEM. A recalled "
        "message counts until it is read."
    )
    unread_mention_count: int = strawberry.field(
        description="Of those, the ones that mention the user, a role of theirs, or everybody. The newest 1,000 "
        "unread messages are counted."
    )
    unread_status: bool = strawberry.field(description="Set by setUnread: show a dot without a number.")
    mute_status: bool
    muted_until: DateTime | None
    priority: int
    category_id: strawberry.ID | None
    sub_biz: str | None
    status: SessionStatus
    active_ts: Timestamp = strawberry.field(
        description="Moved by any change; strictly increasing over all changes of one user. Synchronisation reads this."
    )
    write_ts: Timestamp = strawberry.field(
        description="Moved only by new messages that are not SYSTEM, by pinning and by setUnread. Clients sort by this."
    )
    peer_delivered_seq: int | None = strawberry.field(
        description="PRIVATE only: how far the other person has received and read."
    )
    peer_read_seq: int | None

    @strawberry.field(
        description="For an INVALID session: still answers id, type and last title. For a dismissed group: status "
        "DISSOLVED and its last owner."
    )
    def conversation(self, info: Info) -> ConversationRef:
        return info.context.load_conversation(self.conversation_id)

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        return load_last_message(info.context, self.last_message_in) if self.last_message_in is not None else None


def session_from(session: Session) -> SessionType:
    """Return the GraphQL object of a session."""
    private = kind_of(session.conversation) is ConversationKind.PRIVATE
    return SessionType(
        id=strawberry.ID(session_id(session.user, session.conversation)),
        conversation_id=session.conversation,
        last_message_in=session.newest_inside if session.is_gateway else session.conversation,
        write_seq=session.write_seq,
        read_seq=session.read_seq,
        delivered_seq=session.delivered_seq,
        unread_count=session.unread_count,
        unread_mention_count=session.unread_mention_count,
        unread_status=session.unread_status,
        mute_status=session.muted,
        muted_until=DateTime(session.muted_until_ms) if session.muted_until_ms is not None else None,
        priority=session.priority,
        category_id=strawberry.ID(session.category) if session.category is not None else None,
        sub_biz=session.sub_biz,
        status=SessionStatus.ACTIVE if session.valid else SessionStatus.INVALID,
        active_ts=Timestamp(session.active_ts),
        write_ts=Timestamp(session.write_ts),
        peer_delivered_seq=session.peer_delivered_seq if private else None,
        peer_read_seq=session.peer_read_seq if private else None,
    )


def load_last_message(context: Context, conversation: ConversationId) -> Any:
    """Return the newest message of a conversation that the viewer may read, or a Deferred of it."""
    return then(
        context.loaders.last_message(conversation),
        lambda message: message_from(message) if message is not None else None,
    )


@strawberry.type
class SessionEdge:
    node: SessionType
    cursor: str


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
        edges=[SessionEdge(node=session_from(edge.node), cursor=edge.cursor) for edge in listed.page.edges],
        page_info=page_info(listed.page),
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
