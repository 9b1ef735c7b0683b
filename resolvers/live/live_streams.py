"""Subscriptions as use cases: what was missed, then what happens, with no gap and no repeat between the two."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_sync
from resolvers.base.errors import NotFound
from resolvers.base.pages import LARGEST_PAGE
from resolvers.conversations.access import access_conversation
from resolvers.sessions.session_lists import changed_since
from store.base.errors import StoreError
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message
from store.redis.fallback import FallbackScope
from store.sessions.session import Session
from subscriptions.realtime.events import (
    Event,
    MessageChanged,
    MessageCreated,
    MessageRecalled,
    MessageUpdated,
    ReceiptAdvanced,
    SessionChanged,
    SyncReason,
    TypingStarted,
)
from subscriptions.realtime.hub import Hub
from subscriptions.realtime.mailboxes import Delivered, Item, Lagged, Mailbox, Position, QueueBudget
from subscriptions.realtime.replay import in_order_of_seq

T = TypeVar("T")

_REMEMBERED = 1_000
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = (0.1, 1.0)

MessagePayload = MessageChanged | ReceiptAdvanced | TypingStarted


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What was missed has been told; from here on it is live. reset: not all of it could be told, begin anew."""

    reset: bool


@dataclass(frozen=True, slots=True)
class SessionSync:
    """Sessions that changed, whole."""

    reason: SyncReason
    sessions: Sequence[Session]
    total_unread: int
    has_more: bool = False
    reset: bool = False


LivePayload = MessagePayload | CaughtUp | SessionChanged | SessionSync


class LiveEvent(NamedTuple):
    """What a subscriber is told, and where it is to resume after that: whoever has applied it holds everything before.

    `what` is the very same object for all whom one event reaches.
    """

    what: LivePayload
    cursor: Position | None


_GOING_LIVE = CaughtUp(reset=False)
_BEGIN_ANEW = CaughtUp(reset=True)

Parts = AsyncIterator[Sequence[LiveEvent]]


class LiveStream:
    """A subscription's events, taken one by one. Parts that have to be read from the databases come before what is live; they are
    read only as fast as they are taken."""

    __slots__ = ("_failure", "_hub", "_live", "_mailbox", "_parts", "_reading", "_ready", "_told")

    def __init__(
        self,
        hub: Hub,
        mailbox: Mailbox,
        live: Callable[[Item], LiveEvent | Parts | None],
        *,
        told: Iterable[LiveEvent] = (),
        parts: Parts | None = None,
    ) -> None:
        """`live` says what an item of the mailbox is to the subscriber: something, nothing, or parts to be read first."""
        self._hub = hub
        self._mailbox = mailbox
        self._live = live
        self._told: deque[LiveEvent] | None = deque(told)
        self._parts = parts
        self._reading: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._ready: Callable[[], None] = _nobody

    def on_ready(self, call: Callable[[], None]) -> None:
        """`call` is made when `take` answered None and may have something now."""
        self._ready = call
        self._mailbox.on_ready(call)

    def take(self) -> LiveEvent | None:
        """The next event, if there is one. Raises what reading the databases raised."""
        while True:
            if self._told:
                return self._told.popleft()
            self._told = None
            if self._failure is not None:
                raise self._failure
            if self._parts is not None:
                if self._reading is None:
                    self._reading = asyncio.create_task(self._read(self._parts))
                return None
            item = self._mailbox.take()
            if item is None:
                return None
            told = self._live(item)
            if isinstance(told, LiveEvent):
                return told
            self._parts = told

    async def _read(self, parts: Parts) -> None:
        try:
            self._told = deque(await anext(parts))
        except StopAsyncIteration:
            self._parts = None
        except Exception as error:
            self._failure = error
        self._reading = None
        self._ready()

    def close(self) -> None:
        """Ends it. Idempotent."""
        self._ready = _nobody
        self._hub.detach(self._mailbox)
        if self._reading is not None:
            self._reading.cancel()


def _nobody() -> None:
    return


async def message_events(
    app: Confab, user: UserId, since: str | None, conversation: str | None, room: QueueBudget
) -> LiveStream:
    """The user's message events, in all their conversations or in one. Raises NotFound for one they were never in.

    Attached once this returns: nothing that happens afterwards is missed.
    """
    if conversation is not None and await access_conversation(app, user, conversation) is None:
        raise NotFound("there is no such conversation", field="conversationId")
    mailbox = await _patiently(partial(app.hub.attach, user, room))
    view = _MessageView(mailbox.start, conversation)
    if since is None:
        return LiveStream(app.hub, mailbox, view.live, told=[LiveEvent(_GOING_LIVE, mailbox.start)])
    return LiveStream(app.hub, mailbox, view.live, parts=view.missed(app, mailbox, since))


class _MessageView:
    """What one subscriber of message events is told."""

    __slots__ = ("_conversation", "_seen", "_shown")

    def __init__(self, start: Position, conversation: str | None) -> None:
        self._seen = start
        self._conversation = conversation
        self._shown = _Shown()

    async def missed(self, app: Confab, mailbox: Mailbox, since: str) -> Parts:
        """What happened since a cursor, in one part, and that it is all."""
        missed = await _patiently(partial(_missed, app, mailbox, since))
        if missed is None:
            app.hub.resets += 1
            yield [LiveEvent(_BEGIN_ANEW, self._seen)]
            return
        self._seen = missed.until
        told = [self._of(item.event, item.position) for item in missed.items]
        yield [*filter(None, told), LiveEvent(_GOING_LIVE, self._seen)]

    def live(self, item: Item) -> LiveEvent | None:
        """What an item of the mailbox is to the subscriber."""
        match item:
            case Delivered(position, event):
                return self._of(event, position) if _is_news(position, self._seen) else None
            case Lagged(position):
                self._seen = position
                return LiveEvent(_BEGIN_ANEW, position)
            case TypingStarted(where):
                return LiveEvent(item, None) if self._conversation in (None, where) else None

    def _of(self, event: Event, position: Position) -> LiveEvent | None:
        told = _message_event(event, self._conversation)
        return LiveEvent(told, position) if told is not None and self._shown.is_news(told) else None


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

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: OrderedDict[MessageId, Message] | None = None

    def is_news(self, event: MessagePayload) -> bool:
        """Whether a message event shows nothing older than what was shown. It is shown then."""
        if isinstance(event, ReceiptAdvanced | TypingStarted):
            return True
        message = event.message
        known = self._messages.get(message.id) if self._messages is not None else None
        if known is not None and not message.is_recalled and (known.is_recalled or known.edits > message.edits):
            return False
        if message.is_recalled or message.edits:
            if self._messages is None:
                self._messages = OrderedDict()
            self._messages[message.id] = message
            self._messages.move_to_end(message.id)
            if len(self._messages) > _REMEMBERED:
                self._messages.popitem(last=False)
        return True


def _message_event(event: Event, conversation: str | None) -> MessagePayload | None:
    """What a change is to a subscriber of message events, if anything."""
    told: MessagePayload | None
    where: ConversationId | None
    match event:
        case MessageCreated(message) | MessageUpdated(message) | MessageRecalled(message):
            told, where = event, message.conversation
        case ReceiptAdvanced():
            told, where = event, event.conversation
        case SessionChanged():
            told, where = event.receipt, event.receipt.conversation if event.receipt else None
    return told if conversation is None or where == conversation else None


async def sync_session(app: Confab, user: UserId, since: str | None, room: QueueBudget) -> LiveStream:
    """Changes of the user's sessions. Attached once this returns: nothing that happens afterwards is missed."""
    mailbox = await _patiently(partial(app.hub.attach, user, room))
    view = _SessionView(app, mailbox)
    return LiveStream(app.hub, mailbox, view.live, parts=view.missed(since))


class _SessionView:
    """What one subscriber of session changes is told."""

    __slots__ = ("_app", "_seen", "_start", "_user")

    def __init__(self, app: Confab, mailbox: Mailbox) -> None:
        self._app = app
        self._user = mailbox.user
        self._start = self._seen = mailbox.start

    async def missed(self, since: str | None) -> Parts:
        """What changed since a cursor; without one, where things stand."""
        if since is None:
            now = await _patiently(partial(self._app.store.sessions.find_many, self._user, ()))
            yield [LiveEvent(SessionSync(SyncReason.CATCH_UP, (), now.total_unread), self._start)]
            return
        async for part in self._catch_up(decode_sync(self._app.store.deployment.name, self._user, since)):
            yield part

    def live(self, item: Item) -> LiveEvent | Parts | None:
        """What an item of the mailbox is to the subscriber."""
        match item:
            case Lagged():
                return self._catch_up(None)
            case Delivered(position, SessionChanged() as event) if _is_news(position, self._seen):
                return LiveEvent(event, position)
        return None

    async def _catch_up(self, cursor: Position | None) -> Parts:
        """Everything that changed since the cursor, in parts; everything there is where it can't be used: reset."""
        reset = False
        while True:
            delta = await _patiently(partial(changed_since, self._app, self._user, cursor, LARGEST_PAGE, asked=True))
            reset = reset or delta.reset
            self._seen = delta.cursor
            sync = SessionSync(SyncReason.CATCH_UP, delta.sessions, delta.total_unread, delta.has_more, reset)
            yield [LiveEvent(sync, delta.cursor)]
            if not delta.has_more:
                return
            cursor = delta.cursor


async def _patiently(read: Callable[[], Awaitable[T]]) -> T:
    """A subscriber can wait for a database that is restarting; one that is refused would have to begin anew."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
    pause, longest = _PAUSE_SECONDS
    while True:
        try:
            with FallbackScope():
                return await read()
        except StoreError:
            if asyncio.get_running_loop().time() + pause > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)


def _is_news(position: Position, seen: Position) -> bool:
    """Whether a change is not contained in what was told when the clock stood at `seen`."""
    return position.epoch != seen.epoch or (position.tick > seen.tick and position.tick not in seen.ahead)
