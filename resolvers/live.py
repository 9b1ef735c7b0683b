"""Subscriptions as use cases: what was missed, then what happens, with no gap and no repeat between the two."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from resolvers.app import Confab
from resolvers.conversations import access_conversation
from resolvers.cursors import decode_sync
from resolvers.errors import NotFound
from resolvers.pages import LARGEST_PAGE
from resolvers.sessions import changed_since
from store.ids import ConversationId, MessageId, UserId
from store.records import Message, Session
from subscriptions.events import (
    Event,
    MessageChanged,
    MessageCreated,
    MessageRecalled,
    MessageUpdated,
    ReceiptAdvanced,
    SessionChanged,
    SyncReason,
)
from subscriptions.hub import Delivered, Hub, Lagged, Mailbox, Position
from subscriptions.replay import in_order_of_seq

T = TypeVar("T")

_REMEMBERED = 1_000

MessageHappening = MessageChanged | ReceiptAdvanced


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What was missed has been told; from here on it is live. reset: not all of it could be told, begin anew."""

    cursor: Position
    reset: bool


@dataclass(frozen=True, slots=True)
class Happened:
    """A message event. Who has applied it holds everything before the cursor."""

    event: MessageHappening
    cursor: Position


@dataclass(frozen=True, slots=True)
class SessionSync:
    """Sessions that changed, whole."""

    reason: SyncReason
    sessions: Sequence[Session]
    total_unread: int
    cursor: Position
    has_more: bool = False
    reset: bool = False


class LiveStream(Generic[T]):
    """A subscription's events. Whoever stops early closes it; one that was never read lets go of its mailbox too."""

    def __init__(self, hub: Hub, mailbox: Mailbox, events: AsyncGenerator[T, None]) -> None:
        self._hub = hub
        self._mailbox = mailbox
        self._events = events

    def __aiter__(self) -> LiveStream[T]:
        return self

    async def __anext__(self) -> T:
        return await self._events.__anext__()

    async def aclose(self) -> None:
        """Ends it."""
        self._hub.detach(self._mailbox)
        await self._events.aclose()


async def message_events(
    app: Confab, user: UserId, since: str | None, conversation: str | None
) -> LiveStream[CaughtUp | Happened]:
    """The user's message events, in all their conversations or in one. Raises NotFound for one they were never in.

    Attached once this returns: nothing that happens afterwards is missed.
    """
    if conversation is not None and await access_conversation(app, user, conversation) is None:
        raise NotFound("there is no such conversation", field="conversationId")
    mailbox = await app.hub.attach(user, app.limits.mailbox)
    return LiveStream(app.hub, mailbox, _message_events(app, mailbox, since, conversation))


async def _message_events(
    app: Confab, mailbox: Mailbox, since: str | None, conversation: str | None
) -> AsyncGenerator[CaughtUp | Happened, None]:
    try:
        seen, shown = mailbox.start, _Shown()
        missed = await _missed(app, mailbox, since) if since is not None else _Missed([], seen)
        if missed is not None:
            seen = missed.until
            for item in missed.items:
                told = _message_event(item.event, conversation)
                if told is not None and shown.is_news(told):
                    yield Happened(told, item.position)
        yield CaughtUp(seen, reset=missed is None)
        while True:
            match await mailbox.get():
                case Lagged(position):
                    seen = position
                    yield CaughtUp(position, reset=True)
                case Delivered(position, event) if _is_news(position, seen):
                    told = _message_event(event, conversation)
                    if told is not None and shown.is_news(told):
                        yield Happened(told, position)
    finally:
        app.hub.detach(mailbox)


@dataclass(frozen=True, slots=True)
class _Missed:
    """What was missed until a position; what comes live after it is news."""

    items: list[Delivered]
    until: Position


async def _missed(app: Confab, mailbox: Mailbox, since: str) -> _Missed | None:
    """What happened after the cursor, up to the moment the mailbox begins; None if that can't be told.

    A cursor may be newer than that moment: its client heard from another server, and this one is about to.
    """
    cursor = decode_sync(app.store.deployment.name, mailbox.user, since)
    if cursor is None or cursor.epoch != mailbox.start.epoch:
        return None
    logged = await app.replayer.since(mailbox.user, cursor)
    if logged is None:
        return None
    if cursor.tick >= mailbox.start.tick:
        return _Missed([], cursor)
    due = [item for item in logged if item.position.tick <= mailbox.start.tick]
    return _Missed(in_order_of_seq(cursor, due), mailbox.start)


class _Shown:
    """The messages that a subscriber was last shown edited or recalled.

    What was missed shows messages as they are when that is read. A live edit that happened before, and reaches the
    subscriber after, would turn one back.
    """

    def __init__(self) -> None:
        self._messages: OrderedDict[MessageId, Message] = OrderedDict()

    def is_news(self, event: MessageHappening) -> bool:
        """Whether a message event shows nothing older than what was shown. It is shown then."""
        if isinstance(event, ReceiptAdvanced):
            return True
        message = event.message
        known = self._messages.get(message.id)
        if known is not None and not message.is_recalled and (known.is_recalled or known.edits > message.edits):
            return False
        if message.is_recalled or message.edits:
            self._messages[message.id] = message
            self._messages.move_to_end(message.id)
            if len(self._messages) > _REMEMBERED:
                self._messages.popitem(last=False)
        return True


def _message_event(event: Event, conversation: str | None) -> MessageHappening | None:
    """What a change is to a subscriber of message events, if anything."""
    told: MessageHappening | None
    where: ConversationId | None
    match event:
        case MessageCreated(message) | MessageUpdated(message) | MessageRecalled(message):
            told, where = event, message.conversation
        case ReceiptAdvanced():
            told, where = event, event.conversation
        case SessionChanged():
            told, where = event.receipt, event.receipt.conversation if event.receipt else None
    return told if conversation is None or where == conversation else None


async def sync_session(app: Confab, user: UserId, since: str | None) -> LiveStream[SessionSync]:
    """Changes of the user's sessions. Attached once this returns: nothing that happens afterwards is missed."""
    mailbox = await app.hub.attach(user, app.limits.mailbox)
    return LiveStream(app.hub, mailbox, _sync_session(app, mailbox, since))


async def _sync_session(app: Confab, mailbox: Mailbox, since: str | None) -> AsyncGenerator[SessionSync, None]:
    try:
        if since is None:
            total = (await app.store.sessions.find_many(mailbox.user, ())).total_unread
            seen = mailbox.start
            yield SessionSync(SyncReason.CATCH_UP, (), total, seen)
        else:
            seen = mailbox.start
            async for part in _catch_up(app, mailbox.user, decode_sync(app.store.deployment.name, mailbox.user, since)):
                seen = part.cursor
                yield part
        while True:
            match await mailbox.get():
                case Lagged():
                    async for part in _catch_up(app, mailbox.user, None):
                        seen = part.cursor
                        yield part
                case Delivered(position, SessionChanged() as event) if _is_news(position, seen):
                    yield SessionSync(event.reason, event.sessions, event.total_unread, position)
    finally:
        app.hub.detach(mailbox)


def _is_news(position: Position, seen: Position) -> bool:
    """Whether a change is not contained in what was told when the clock stood at `seen`."""
    return position.epoch != seen.epoch or (position.tick > seen.tick and position.tick not in seen.ahead)


async def _catch_up(app: Confab, user: UserId, cursor: Position | None) -> AsyncIterator[SessionSync]:
    """Everything that changed since the cursor, in parts; everything there is where it can't be used: reset."""
    reset = False
    while True:
        delta = await changed_since(app, user, cursor, LARGEST_PAGE, asked=True)
        reset = reset or delta.reset
        yield SessionSync(
            SyncReason.CATCH_UP, delta.sessions, delta.total_unread, delta.cursor, has_more=delta.has_more, reset=reset
        )
        if not delta.has_more:
            return
        cursor = delta.cursor
