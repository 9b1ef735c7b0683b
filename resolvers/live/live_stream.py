"""Live streams: the events of one subscription, with no gap and no repeat between missed and live events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from store.sessions.fields import SyncReason
from store.sessions.session import Session
from subscriptions.realtime.events.base import MessageStreamEvent
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.hub import Hub
from subscriptions.realtime.mailboxes import Item, Mailbox, Position


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


LivePayload = MessageStreamEvent | CaughtUp | SessionChanged | SessionSync


class LiveEvent(NamedTuple):
    """An event as a subscriber sees it, and the cursor to resume from.

    `payload` is the same object for all subscribers of the event, so that it is executed once for all of them. A client
    that has applied the event holds everything before `cursor`; events without a tick have none.
    """

    payload: LivePayload
    cursor: Position | None


Parts = AsyncIterator[Sequence[LiveEvent]]
"""Events that are read from the databases, in parts."""


class LiveStream:
    """The events of one subscription, taken one by one.

    Parts that are read from the databases come before live events. They are read only as fast as they are taken.
    """

    __slots__ = ("_convert", "_failure", "_hub", "_mailbox", "_parts", "_reading", "_ready", "_waiting")

    def __init__(
        self,
        hub: Hub,
        mailbox: Mailbox,
        convert: Callable[[Item], LiveEvent | Parts | None],
        *,
        first: Iterable[LiveEvent] = (),
        parts: Parts | None = None,
    ) -> None:
        """Create a stream of a mailbox. The stream closes the mailbox.

        Args:
            hub: The hub that the mailbox is attached to.
            mailbox: The live items.
            convert: Returns the event that the subscriber sees for an item; None: none; or parts to read first.
            first: Events before the parts.
            parts: Events before the live ones.
        """
        self._hub = hub
        self._mailbox = mailbox
        self._convert = convert
        self._waiting: deque[LiveEvent] | None = deque(first)
        self._parts = parts
        self._reading: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._ready: Callable[[], None] = _ignore

    def on_ready(self, call: Callable[[], None]) -> None:
        """Make `call` when `take` has returned None and may return an event again."""
        self._ready = call
        self._mailbox.on_ready(call)

    def take(self) -> LiveEvent | None:
        """Remove and return the next event, if there is one. Raises the errors of reads from the databases."""
        while True:
            if self._waiting:
                return self._waiting.popleft()
            self._waiting = None
            if self._failure is not None:
                raise self._failure
            if self._parts is not None:
                if self._reading is None:
                    self._reading = asyncio.create_task(self._read(self._parts))
                return None
            item = self._mailbox.take()
            if item is None:
                return None
            converted = self._convert(item)
            if isinstance(converted, LiveEvent):
                return converted
            self._parts = converted

    async def _read(self, parts: Parts) -> None:
        try:
            self._waiting = deque(await anext(parts))
        except StopAsyncIteration:
            self._parts = None
        except Exception as error:
            self._failure = error
        self._reading = None
        self._ready()

    def close(self) -> None:
        """End the stream. Idempotent."""
        self._ready = _ignore
        self._hub.detach(self._mailbox)
        if self._reading is not None:
            self._reading.cancel()


def is_after(position: Position, seen: Position) -> bool:
    """Return whether an event at a position is new to a subscriber whose position is `seen`."""
    return position.epoch != seen.epoch or (position.tick > seen.tick and position.tick not in seen.ahead)


def _ignore() -> None:
    return
