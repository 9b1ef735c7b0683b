"""Sessions at the API."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from resolvers.sessions import session_lists as use_cases
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo, page_info
from schema.base.scalars import Cursor, DateTime, Timestamp
from schema.compiler import then
from schema.messages import MessageType, message_from
from store.base.ids import ConversationId, ConversationKind, kind_of, session_id
from store.sessions.session import Session
from subscriptions.realtime.mailboxes import Position

if TYPE_CHECKING:
    from schema.conversations import Conversation

ConversationRef = Annotated["Conversation", strawberry.lazy("schema.conversations")]


@strawberry.enum
class SessionStatus(Enum):
    ACTIVE = "ACTIVE"
    INVALID = "INVALID"


@strawberry.type(name="Session", description="One user's context of one conversation. Overwritten, never appended.")
class SessionType(Node):
    key: strawberry.Private[ConversationId]
    newest_in: strawberry.Private[ConversationId | None]
    write_seq: int = strawberry.field(
        description="Position of the conversation's newest message, and how far this user has read and received."
    )
    read_seq: int
    delivered_seq: int
    unread_count: int = strawberry.field(
        description="Messages after readSeq that are visible to the user, not their own and not SYSTEM. A recalled one counts "
        "until it is read."
    )
    unread_mention_count: int = strawberry.field(
        description="Of those, the ones that mention the user or everybody; the newest 1,000 are counted."
    )
    unread_status: bool = strawberry.field(description="Set by setUnread: show a dot without a number.")
    mute_status: bool
    muted_until: DateTime | None
    priority: int
    category_id: strawberry.ID | None
    sub_biz: str | None
    status: SessionStatus
    active_ts: Timestamp = strawberry.field(
        description="Any change moves it; strictly increasing over one user's changes. What synchronisation reads."
    )
    write_ts: Timestamp = strawberry.field(
        description="Only new messages (not SYSTEM ones), pinning and setUnread move it. What the client sorts by."
    )
    peer_delivered_seq: int | None = strawberry.field(
        description="PRIVATE only: how far the other person has received and read."
    )
    peer_read_seq: int | None

    @strawberry.field(
        description="That of a tombstone still answers id, type and last title; a dismissed group answers status DISSOLVED "
        "and its last owner."
    )
    def conversation(self, info: Info) -> ConversationRef:
        from schema.conversations import load_conversation

        return load_conversation(info.context, self.key)

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        return load_last_message(info.context, self.newest_in) if self.newest_in is not None else None


def session_from(session: Session) -> SessionType:
    """A session as the API shows it."""
    private = kind_of(session.conversation) is ConversationKind.PRIVATE
    return SessionType(
        id=strawberry.ID(session_id(session.user, session.conversation)),
        key=session.conversation,
        newest_in=session.newest_inside if session.is_gateway else session.conversation,
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
    """The newest message of a conversation that the viewer may read, or an Eventual of it."""
    return then(
        context.loaders.last_message(conversation),
        lambda message: message_from(message) if message is not None else None,
    )


@strawberry.type
class SessionEdge:
    node: SessionType
    cursor: str


@strawberry.type(
    description="totalUnread: the caller's whole total. cursor: synchronise from here after having shown this page."
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
    newest_in: strawberry.Private[ConversationId]
    category_id: strawberry.ID
    session_count: int
    unread_count: int
    write_ts: Timestamp

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        return load_last_message(info.context, self.newest_in)


def cursor_from(context: Context, cursor: Position) -> Cursor:
    """A sync cursor of the viewer's as the API gives it out."""
    return Cursor(use_cases.sync_cursor(context.app, context.viewer, cursor))


async def find_session(context: Context, conversation: str) -> SessionType | None:
    """The viewer's session of a conversation, or None."""
    found = await use_cases.find_session(context.app, context.viewer, conversation)
    return session_from(found) if found else None


@strawberry.type
class SessionQueries:
    @strawberry.field(
        description="The session list as a person sees it: pinned first by priority, then by writeTs, newest first. Sessions "
        "with a subBiz are not in the main list (subBiz: null): one gateway session stands for them. INVALID sessions are left "
        "out. With a categoryId alone: all that is filed under it."
    )
    async def sessions(
        self,
        info: Info,
        first: int | None = 50,
        after: str | None = None,
        sub_biz: str | None = None,
        category_id: strawberry.ID | None = None,
    ) -> SessionConnection:
        context = info.context
        listed = await use_cases.list_sessions(context.app, context.viewer, first, after, sub_biz, category_id)
        return SessionConnection(
            edges=[SessionEdge(node=session_from(edge.node), cursor=edge.cursor) for edge in listed.page.edges],
            page_info=page_info(listed.page),
            total_unread=listed.total_unread,
            cursor=Cursor(listed.cursor),
        )

    @strawberry.field(description="Also one that is INVALID, with that status.")
    async def session(self, info: Info, conversation_id: strawberry.ID) -> SessionType | None:
        return await find_session(info.context, conversation_id)

    @strawberry.field(
        description="Incremental synchronisation: every session whose activeTs moved past the cursor, oldest change first, "
        "including sessions that BECAME read, muted or INVALID. Without a cursor: all valid sessions. Page until hasMore is "
        "false. Its cost grows with what changed, never with how many sessions the user has."
    )
    async def sync_sessions(self, info: Info, since: Cursor | None = None, first: int | None = 100) -> SessionDelta:
        delta = await use_cases.sync_sessions(info.context.app, info.context.viewer, since, first)
        return SessionDelta(
            sessions=[session_from(session) for session in delta.sessions],
            cursor=cursor_from(info.context, delta.cursor),
            has_more=delta.has_more,
            total_unread=delta.total_unread,
            reset=delta.reset,
        )

    @strawberry.field(description="Sum of unreadCount over the caller's valid sessions that are not muted.")
    async def total_unread(self, info: Info) -> int:
        return await use_cases.total_unread(info.context.app, info.context.viewer)

    @strawberry.field(
        description="One aggregate per categoryId in use by the caller; muted sessions are left out of its unreadCount."
    )
    async def session_categories(self, info: Info) -> list[SessionCategory]:
        return [
            SessionCategory(
                newest_in=folder.newest,
                category_id=strawberry.ID(folder.category),
                session_count=folder.session_count,
                unread_count=folder.unread_count,
                write_ts=Timestamp(folder.write_ts),
            )
            for folder in await use_cases.list_folders(info.context.app, info.context.viewer)
        ]
