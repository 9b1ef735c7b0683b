"""Subscriptions at the API."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Annotated, Any, NoReturn

import strawberry

from resolvers.live import live_streams as live
from resolvers.sessions.session_lists import sync_cursor
from schema.base.context import Context, Info
from schema.base.scalars import Cursor, Timestamp
from schema.messages.message_types import MessageType, message_from
from schema.messages.receipt_types import ReceiptStatus
from schema.sessions.session_types import SessionType, session_from
from schema.users.user_types import UserType, load_user
from store.base.ids import UserId
from subscriptions.realtime import events
from subscriptions.realtime.events import SyncReason as Reason
from subscriptions.realtime.mailboxes import Position


@strawberry.enum(name="SyncReason")
class SyncReasonType(Enum):
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
    reason: SyncReasonType
    has_more: bool
    sessions: list[SessionType]
    total_unread: int
    cursor: Cursor
    reset: bool


@strawberry.type(name="MessageCreated")
class MessageCreatedType:
    message: MessageType
    cursor: Cursor


@strawberry.type(name="MessageUpdated")
class MessageUpdatedType:
    message: MessageType
    cursor: Cursor


@strawberry.type(name="MessageRecalled")
class MessageRecalledType:
    message: MessageType
    cursor: Cursor


@strawberry.type(
    name="ReceiptAdvanced",
    description="One high-water mark: user has received / read everything up to seq. Once per acknowledgement, however many "
    "messages it covers, to the user's own devices and to members who sent a message that it covers. Pushed in groups of up to "
    "200 members; in larger ones ask receipts.",
)
class ReceiptAdvancedType:
    user_id: strawberry.Private[UserId]
    conversation_id: strawberry.ID
    status: ReceiptStatus
    seq: int
    cursor: Cursor

    @strawberry.field
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.user_id)


@strawberry.type(name="TypingStarted")
class TypingStartedType:
    user_id: strawberry.Private[UserId]
    conversation_id: strawberry.ID
    at: Timestamp

    @strawberry.field
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.user_id)


@strawberry.type(name="CaughtUp")
class CaughtUpType:
    cursor: Cursor
    reset: bool


MessageEvent = Annotated[
    MessageCreatedType
    | MessageUpdatedType
    | MessageRecalledType
    | ReceiptAdvancedType
    | TypingStartedType
    | CaughtUpType,
    strawberry.union(
        "MessageEvent",
        description="cursor: resume after this event. A client that has applied it holds everything before it. CaughtUp marks the "
        "moment between what was missed and what is live; reset true: start from syncSessions anew.",
    ),
]


CURSOR = secrets.token_hex(16)
"""Stands for a subscriber's own cursor in what all subscribers share, until it is put in its place. Nobody is ever shown it."""


class Source(AsyncIterator[Any]):
    """What a subscription's field answers: its stream, what each event is in GraphQL, and the cursor that goes with it."""

    __slots__ = ("_app", "_user", "show", "stream")

    def __init__(self, context: Context, stream: live.LiveStream, show: Callable[[Any], object]) -> None:
        self._app = context.app
        self._user = context.viewer
        self.stream = stream
        self.show = show
        """From what was told to the value of the field, with CURSOR for the cursor. The same for all subscribers."""

    def cursor(self, position: Position) -> str:
        """Where this subscriber is to resume."""
        return sync_cursor(self._app, self._user, position)

    async def __anext__(self) -> NoReturn:
        # graphql-core wants to see something that could be iterated over; the engine takes from the stream instead.
        raise NotImplementedError


def _show_sync(what: live.SessionSync | events.SessionChanged) -> SyncSession:
    has_more, reset = (what.has_more, what.reset) if isinstance(what, live.SessionSync) else (False, False)
    return SyncSession(
        reason=SyncReasonType(what.reason),
        has_more=has_more,
        sessions=[session_from(session) for session in what.sessions],
        total_unread=what.total_unread,
        cursor=Cursor(CURSOR),
        reset=reset,
    )


def _show_event(
    what: live.MessagePayload | live.CaughtUp,
) -> (
    MessageCreatedType
    | MessageUpdatedType
    | MessageRecalledType
    | ReceiptAdvancedType
    | TypingStartedType
    | CaughtUpType
):
    cursor = Cursor(CURSOR)
    match what:
        case live.CaughtUp(reset):
            return CaughtUpType(cursor=cursor, reset=reset)
        case events.MessageCreated(message):
            return MessageCreatedType(message=message_from(message), cursor=cursor)
        case events.MessageUpdated(message):
            return MessageUpdatedType(message=message_from(message), cursor=cursor)
        case events.MessageRecalled(message):
            return MessageRecalledType(message=message_from(message), cursor=cursor)
        case events.ReceiptAdvanced(conversation, user, kind, seq):
            return ReceiptAdvancedType(
                user_id=user,
                conversation_id=strawberry.ID(conversation),
                status=ReceiptStatus(kind),
                seq=seq,
                cursor=cursor,
            )
        case events.TypingStarted(conversation, user, at_ms):
            return TypingStartedType(user_id=user, conversation_id=strawberry.ID(conversation), at=Timestamp(at_ms))


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
        stream = await live.sync_session(context.app, context.viewer, since, context.room)
        return Source(context, stream, _show_sync)

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
        stream = await live.message_events(context.app, context.viewer, since, conversation_id, context.room)
        return Source(context, stream, _show_event)
