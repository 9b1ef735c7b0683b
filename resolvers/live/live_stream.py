"""Live streams: the events of one subscription, with no gap and no repeat between missed and live events."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from resolvers.base.catch_ups import CatchUps
from store.base.ids import UserId
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from subscriptions.realtime.events.base import EphemeralEvent, Event
from subscriptions.realtime.mailboxes import Item, Lagged, Mailbox, MailboxEvent, Position, Receive


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The end of the missed events: all later events are live. reset: the client has to start over."""

    reset: bool


@dataclass(frozen=True, slots=True)
class SessionSync:
    """A part of the sessions that changed while a client was away."""

    reason: SyncReason
    sessions: Sequence[Session]
    total_unread: int
    has_more: bool = False
    reset: bool = False


LivePayload = object
"""An event as subscribers see it. `schema/events` has the GraphQL type of each kind."""


class LiveEvent(NamedTuple):
    """An event as a subscriber sees it, and the cursor to resume from.

    `payload` is the same object for all subscribers of the event, so that it is executed once for all of them. A client
    that has applied the event holds everything before `cursor`; events without a tick have none.
    """

    payload: LivePayload
    cursor: Position | None


class PayloadBatch(tuple[LivePayload, ...]):
    """Several events that a subscriber sees of one item."""

    __slots__ = ()


Parts = AsyncIterator[Sequence[LiveEvent]]
"""Events that are read from the databases, in parts."""


Confirm = Callable[[], Awaitable[bool]]
"""Reads whether an event may be sent."""


class View(Protocol):
    """Decides what one subscriber sees of the items in its mailbox. It is asked once for each item, in order."""

    def show(self, event: Event, position: Position) -> LivePayload | PayloadBatch | None:
        """Return what the subscriber sees of an event; None: nothing."""
        ...

    def show_ephemeral(self, event: EphemeralEvent) -> LivePayload | None:
        """Return what the subscriber sees of an event without a tick; None: nothing."""
        ...

    def show_lagged(self, lagged: Lagged) -> Sequence[LiveEvent] | Parts:
        """Return the events for a subscriber that lost events, or the parts to read."""
        ...

    def still_shows(self, payload: LivePayload) -> bool:
        """Return whether an event that the view has let through may still be sent, as far as this process knows.

        It does not wait. Rights may end while an event waits for a slow reader, or for the rendering of its response.
        """
        ...

    def find_confirmation(self, payload: LivePayload, position: Position | None) -> Confirm | None:
        """Return a read of the present rights, which must allow the event before it is sent; None if it needs none."""
        ...


_CONFIRMED_SECONDS = 0.05
"""Time for which the first confirmation of an event is valid.

A reader that comes later has a busy connection, or the event loop is slow. Then the event is confirmed once more, and
waits for the reader. So no event waits for ever, and a reader that is late twice sees what it would have seen in time.
"""


class LiveEventReceiver(Protocol):
    """Takes events as they happen, while it is ready."""

    @property
    def is_ready(self) -> bool:
        """True if it takes an event now."""
        ...

    def receive(self, payload: LivePayload, cursor: Position) -> None:
        """Take an event. Call it only while `is_ready`."""
        ...


class MailboxOwner(Protocol):
    """Knows the hubs of mailboxes. A hub knows those that are attached to it."""

    def detach(self, mailbox: Mailbox) -> None:
        """Close a mailbox. Idempotent."""
        ...

    def find_position(self, mailbox: Mailbox) -> Position | None:
        """Return the position up to which events are delivered to a mailbox; None if it was closed."""
        ...


class LiveStream:
    """The events of one subscription, taken one by one, or handed to a receiver.

    A subscription to several clocks has a mailbox for each. Parts that are read from the databases come before live
    events. They are read only as fast as they are taken: one part at a time, and few at once for one user (`CatchUps`).
    """

    __slots__ = (
        "_catch_ups",
        "_confirmed",
        "_failure",
        "_holds_part",
        "_hub",
        "_mailboxes",
        "_on_close",
        "_parts",
        "_reading",
        "_ready",
        "_receiver",
        "_user",
        "_view",
        "_waiting",
    )

    def __init__(
        self,
        user: UserId,
        hub: MailboxOwner,
        mailboxes: Sequence[Mailbox],
        view: View,
        catch_ups: CatchUps,
        *,
        first: Iterable[LiveEvent] = (),
        parts: Parts | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Create a stream of mailboxes. The stream closes them.

        Args:
            user: The subscriber.
            hub: The hub that the mailboxes are attached to, or the object that knows their hubs.
            mailboxes: The live items. No two are of the same clock.
            view: Decides what the subscriber sees of them.
            catch_ups: Bounds the parts that are held.
            first: Events before the parts.
            parts: Events before the live ones.
            on_close: Called once, when the stream is closed.
        """
        self._user = user
        self._hub = hub
        self._mailboxes = tuple(mailboxes)
        self._on_close = [on_close] if on_close is not None else []
        self._view = view
        self._catch_ups = catch_ups
        self._holds_part = False
        self._waiting: deque[LiveEvent] | None = deque(first)
        self._parts = parts
        self._reading: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._confirmed: tuple[LiveEvent, float] | None = None
        """The first waiting event, and the event loop's time until which it may be sent."""
        self._ready: Callable[[], None] = _ignore
        self._receiver: LiveEventReceiver | None = None

    @property
    def is_catching_up(self) -> bool:
        """True if the last taken event is a missed event, which was read for this subscriber alone."""
        return self._waiting is not None or self._parts is not None

    def on_ready(self, call: Callable[[], None]) -> None:
        """Make `call` when `take` has returned None and may return an event again."""
        self._ready = call
        for mailbox in self._mailboxes:
            mailbox.on_ready(call)

    def hand_over_to(self, receiver: LiveEventReceiver) -> None:
        """From the time when `take` has returned None, hand events to a receiver while it is ready.

        Events that happen while it is not ready, or while parts are read, can be taken as before.
        """
        self._receiver = receiver

    def take(self) -> LiveEvent | None:
        """Remove and return the next event, if there is one. Raises the errors of reads from the databases."""
        while self._reading is None:
            if self._failure is not None:
                raise self._failure
            if self._waiting:
                event = self._take_waiting()
                if event is not None:
                    return event
                continue
            self._waiting = None
            # The consumer has written the last event of the part, or it would not ask for the next one.
            self._release_part()
            if self._parts is not None:
                self._reading = asyncio.create_task(self._read(self._parts))
                return None
            item = self._take_item()
            if item is None:
                if self._receiver is not None:
                    self._receive_with(self._receive)
                return None
            event = self._show(item)
            if event is not None:
                return event
        return None

    def still_shows(self, payload: LivePayload) -> bool:
        """Return whether an event that was taken may still be sent."""
        return self._view.still_shows(payload)

    def _take_waiting(self) -> LiveEvent | None:
        """Remove the first event that waits. Return None if it is not shown any more, or has to be confirmed first."""
        assert self._waiting
        event = self._waiting[0]
        confirm = self._view.find_confirmation(event.payload, event.cursor)
        if confirm is not None and not self._is_confirmed(event):
            self._reading = asyncio.create_task(self._confirm(event, confirm))
            return None
        self._waiting.popleft()
        self._confirmed = None
        return event if self._view.still_shows(event.payload) else None

    def _is_confirmed(self, event: LiveEvent) -> bool:
        if self._confirmed is None:
            return False
        confirmed, until = self._confirmed
        return confirmed is event and asyncio.get_running_loop().time() <= until

    async def _confirm(self, event: LiveEvent, confirm: Confirm) -> None:
        is_first = self._confirmed is None or self._confirmed[0] is not event
        try:
            if await confirm():
                seconds = _CONFIRMED_SECONDS if is_first else math.inf
                self._confirmed = event, asyncio.get_running_loop().time() + seconds
            elif self._waiting and self._waiting[0] is event:
                self._waiting.popleft()
        except Exception as error:
            self._failure = error
        self._reading = None
        self._ready()

    def _take_item(self) -> Item | None:
        for mailbox in self._mailboxes:
            item = mailbox.take()
            if item is not None:
                return item
        return None

    def _receive_with(self, receive: Receive | None) -> None:
        for mailbox in self._mailboxes:
            mailbox.receive_with(receive)

    def _show(self, item: Item) -> LiveEvent | None:
        """Return the event that the subscriber sees for an item. If it sees several, or reads parts, they come next."""
        match item:
            case MailboxEvent(position, event):
                payload = self._view.show(event, position)
                if isinstance(payload, PayloadBatch):
                    self._put_first(LiveEvent(each, position) for each in payload)
                    return None
                if payload is not None and self._view.find_confirmation(payload, position) is not None:
                    self._put_first((LiveEvent(payload, position),))
                    return None
                return LiveEvent(payload, position) if payload is not None else None
            case Lagged():
                shown = self._view.show_lagged(item)
                if isinstance(shown, Sequence):
                    self._put_first(shown)
                else:
                    self._parts = shown
                    self._receive_with(None)
                return None
            case EphemeralEvent():
                payload = self._view.show_ephemeral(item)
                if payload is not None and self._view.find_confirmation(payload, None) is not None:
                    self._put_first((LiveEvent(payload, None),))
                    return None
                return LiveEvent(payload, None) if payload is not None else None

    def _receive(self, position: Position, event: Event) -> bool:
        """Hand an event to the receiver. Return False if it is not ready."""
        receiver = self._receiver
        if receiver is None or not receiver.is_ready:
            return False
        payload = self._view.show(event, position)
        if payload is None:
            return True
        if isinstance(payload, PayloadBatch):
            self._put_first(LiveEvent(each, position) for each in payload)
            self._ready()
        elif self._view.find_confirmation(payload, position) is not None:
            self._put_first((LiveEvent(payload, position),))
            self._ready()
        else:
            receiver.receive(payload, position)
        return True

    def _put_first(self, events: Iterable[LiveEvent]) -> None:
        """Put events before all later ones. They wait until they are taken."""
        self._waiting = deque(events)
        self._receive_with(None)

    async def _read(self, parts: Parts) -> None:
        try:
            await self._catch_ups.begin_part(self._user)
            self._holds_part = True
            self._waiting = deque(await anext(parts))
        except StopAsyncIteration:
            self._parts = None
        except Exception as error:
            self._failure = error
        self._reading = None
        self._ready()

    def _release_part(self) -> None:
        if self._holds_part:
            self._holds_part = False
            self._catch_ups.end_part(self._user)

    def on_close(self, call: Callable[[], None]) -> None:
        """Make `call` once too, when the stream is closed."""
        self._on_close.append(call)

    def drop(self, position: Position) -> None:
        """Drop the events up to a position and those that wait. The subscriber has to start over."""
        self._waiting = None
        if len(self._mailboxes) == 1:
            self._mailboxes[0].drop(position)
            return
        for mailbox in self._mailboxes:
            mailbox.drop(self._hub.find_position(mailbox) or mailbox.start)

    def close(self) -> None:
        """End the stream. Idempotent."""
        self._ready = _ignore
        self._receiver = None
        for mailbox in self._mailboxes:
            self._hub.detach(mailbox)
        calls, self._on_close = self._on_close, []
        for call in calls:
            call()
        if self._reading is not None:
            self._reading.cancel()
        self._release_part()


def is_after(position: Position, seen: Position) -> bool:
    """Return whether an event at a position is new to a subscriber whose position is `seen`."""
    return position.epoch != seen.epoch or (position.tick > seen.tick and position.tick not in seen.ahead)


def _ignore() -> None:
    return
