"""Subscriptions at the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from enum import Enum
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

import strawberry

from resolvers import live
from schema.context import Context, Info
from schema.messages import Message, message_from
from schema.receipts import ReceiptStatus
from schema.scalars import Cursor
from schema.sessions import Session, cursor_from, session_from
from schema.users import User, load_user
from store.ids import UserId
from subscriptions import events
from subscriptions.events import SyncReason as Reason


@strawberry.enum
class SyncReason(Enum):
    READ = Reason.READ
    DELIVERED = Reason.DELIVERED
    DELETE = Reason.DELETE
    MUTE = Reason.MUTE
    UNMUTE = Reason.UNMUTE
    UNREAD = Reason.UNREAD
    PIN = Reason.PIN
    UNPIN = Reason.UNPIN
    CATEGORY = Reason.CATEGORY
    MEMBERSHIP = Reason.MEMBERSHIP
    CATCH_UP = Reason.CATCH_UP


@strawberry.type(description="hasMore: more parts of CATCH_UP follow; false on everything that is live.")
class SyncSession:
    reason: SyncReason
    has_more: bool
    sessions: list[Session]
    total_unread: int
    cursor: Cursor
    reset: bool


@strawberry.type
class MessageCreated:
    message: Message
    cursor: Cursor


@strawberry.type
class MessageUpdated:
    message: Message
    cursor: Cursor


@strawberry.type
class MessageRecalled:
    message: Message
    cursor: Cursor


@strawberry.type(
    description="One high-water mark: user has received / read everything up to seq. Once per acknowledgement, however many "
    "messages it covers, to the user's own devices and to members who sent a message that it covers. Pushed in groups of up to "
    "200 members; in larger ones ask receipts."
)
class ReceiptAdvanced:
    user_id: strawberry.Private[UserId]
    conversation_id: strawberry.ID
    status: ReceiptStatus
    seq: int
    cursor: Cursor

    @strawberry.field
    async def user(self, info: Info) -> User:
        return await load_user(info.context, self.user_id)


@strawberry.type
class CaughtUp:
    cursor: Cursor
    reset: bool


MessageEvent = Annotated[
    MessageCreated | MessageUpdated | MessageRecalled | ReceiptAdvanced | CaughtUp,
    strawberry.union(
        "MessageEvent",
        description="cursor: resume after this event. A client that has applied it holds everything before it. CaughtUp marks the "
        "moment between what was missed and what is live; reset true: start from syncSessions anew.",
    ),
]


T = TypeVar("T")


class Mapped(Generic[T]):
    """A live stream with each item as the API shows it. Not a generator: it is attached, and closed, whether read or not."""

    def __init__(self, stream: live.LiveStream[Any], show: Callable[[Any], T]) -> None:
        self._stream = stream
        self._show = show

    def __aiter__(self) -> Mapped[T]:
        return self

    async def __anext__(self) -> T:
        return self._show(await self._stream.__anext__())

    async def aclose(self) -> None:
        """Ends the stream."""
        await self._stream.aclose()


def _sync_from(context: Context, sync: live.SessionSync) -> SyncSession:
    return SyncSession(
        reason=SyncReason(sync.reason),
        has_more=sync.has_more,
        sessions=[session_from(session) for session in sync.sessions],
        total_unread=sync.total_unread,
        cursor=cursor_from(context, sync.cursor),
        reset=sync.reset,
    )


def _event_from(
    context: Context, item: live.CaughtUp | live.Happened
) -> MessageCreated | MessageUpdated | MessageRecalled | ReceiptAdvanced | CaughtUp:
    cursor = cursor_from(context, item.cursor)
    if isinstance(item, live.CaughtUp):
        return CaughtUp(cursor=cursor, reset=item.reset)
    match item.event:
        case events.MessageCreated(message):
            return MessageCreated(message=message_from(message), cursor=cursor)
        case events.MessageUpdated(message):
            return MessageUpdated(message=message_from(message), cursor=cursor)
        case events.MessageRecalled(message):
            return MessageRecalled(message=message_from(message), cursor=cursor)
        case events.ReceiptAdvanced(conversation, user, kind, seq):
            return ReceiptAdvanced(
                user_id=user,
                conversation_id=strawberry.ID(conversation),
                status=ReceiptStatus(kind),
                seq=seq,
                cursor=cursor,
            )


@strawberry.type
class Subscription:
    @strawberry.subscription(
        description="Session state changes of the caller made on any device, and those made to them (a mute that ended, a group "
        "that was dismissed, a membership). Not new messages: nothing but message events changes a session without one of "
        "these. First CATCH_UP, in one or more parts (with since: everything missed; else empty), then live, with no gap and "
        "no repeat between the two."
    )
    async def sync_session(self, info: Info, since: Cursor | None = None) -> AsyncIterator[SyncSession]:
        context = info.context
        return Mapped(await live.sync_session(context.app, context.viewer, since), partial(_sync_from, context))

    @strawberry.subscription(
        description="New, edited and recalled messages, receipts and typing in all the caller's conversations, or in one; the "
        "caller's own messages too, for their other devices. With since: first what was missed (messages in order of seq per "
        "conversation); then, in any case, CaughtUp; then live, with no gap and no repeat. Of a group one has left: what was "
        "missed while a member, CaughtUp, silence."
    )
    async def message_events(
        self, info: Info, since: Cursor | None = None, conversation_id: strawberry.ID | None = None
    ) -> AsyncIterator[MessageEvent]:
        context = info.context
        stream = await live.message_events(context.app, context.viewer, since, conversation_id)
        return Mapped(stream, partial(_event_from, context))
