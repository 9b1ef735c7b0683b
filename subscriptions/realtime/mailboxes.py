"""Mailboxes: the events that a subscription has not taken yet, bounded by the queue budget of its connection.

A subscription that has taken everything receives the next event directly, without a queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog

from subscriptions.realtime.events.base import EphemeralEvent, Event

_log = structlog.get_logger()


class Position(NamedTuple):
    """A position on a clock. Ticks are comparable within one epoch.

    `ahead`: later ticks whose events were delivered too. `began`: the clock's tick when a client began to page through
    all of its sessions; set until it has the last page.
    `channels_ms`: time up to which a client has what happened in channels, if it is not `tick`; 0: it is.
    `channels_end_ms`, `channel`: while a client pages through channels, the same time after the last page, and the last
    channel that it has at `channels_ms`.
    """

    epoch: str
    tick: int
    ahead: tuple[int, ...] = ()
    began: int = 0
    channels_ms: int = 0
    channels_end_ms: int = 0
    channel: str = ""


class MailboxEvent(NamedTuple):
    """An event and its position."""

    position: Position
    event: Event


class Lagged(NamedTuple):
    """The subscriber lost events up to a position on an owner's clock. No event after it is missing."""

    position: Position
    owner: str


Item = MailboxEvent | Lagged | EphemeralEvent

Receive = Callable[[Position, Event], bool]
"""Takes an event at its position. Returns False to leave the event in the mailbox; then it has done nothing."""


class QueueBudget:
    """The number of events that may wait for one connection, over all of its subscriptions."""

    __slots__ = ("behind_since", "limit", "used")

    def __init__(self, limit: int = 1_000) -> None:
        self.limit = limit
        self.used = 0
        self.behind_since: float | None = None
        """The event loop's time of the first dropped event; None once the connection has taken all waiting events."""

    def reserve(self) -> bool:
        """Count one more event. Return False if the budget is used up."""
        if self.used >= self.limit:
            return False
        self.used += 1
        return True

    def mark_behind(self) -> None:
        """Note that events are dropped."""
        if self.behind_since is None:
            self.behind_since = asyncio.get_running_loop().time()

    def release(self, count: int) -> None:
        """Release the budget of events that were taken."""
        self.used -= count
        if self.used == 0:
            self.behind_since = None

    def release_dropped(self, count: int) -> None:
        """Release the budget of events that were dropped. The connection stays behind."""
        self.used -= count


class Mailbox:
    """The queue of one subscription. Both ends are plain calls on one event loop.

    When the budget is used up the queue is emptied, and the reader finds Lagged in it.
    """

    __slots__ = ("_budget", "_closed", "_items", "_ready", "_receive", "owner", "start", "subjects", "user")

    def __init__(
        self,
        owner: str,
        start: Position,
        budget: QueueBudget,
        user: str = "",
        subjects: Collection[str] | None = None,
    ) -> None:
        """Create an empty mailbox for events on an owner's clock.

        user, subjects: For a clock of many users, see `Hub.attach`.
        """
        self.owner = owner
        self.user = user
        self.subjects = subjects
        self.start = start
        self._budget = budget
        self._items: deque[Item] | None = None
        self._ready: Callable[[], None] | None = None
        self._receive: Receive | None = None
        self._closed = False

    def on_ready(self, call: Callable[[], None]) -> None:
        """Make `call` after each item that is put."""
        self._ready = call

    def receive_with(self, receive: Receive | None) -> None:
        """Set the function that gets each event first, as long as no item is in the queue. None: all are queued."""
        self._receive = receive

    def deliver(self, position: Position, event: Event) -> None:
        """Hand an event over, or queue it. Never blocks or raises."""
        if self._receive is not None and self._items is None:
            try:
                if self._receive(position, event):
                    return
            except Exception:
                # It is not known whether the subscriber has the event.
                _log.exception("subscriber_failed", owner=self.owner)
                self.put(Lagged(position, self.owner))
                return
        self.put(MailboxEvent(position, event))

    def put(self, item: Item) -> None:
        """Add an item. Never blocks or raises. Ephemeral events are dropped if the budget is used up."""
        if self._closed:
            # It was closed while the item was delivered to other mailboxes. The item would never be released.
            return
        if isinstance(item, Lagged):
            self._replace_all(item)
        elif self._budget.reserve():
            if self._items is None:
                self._items = deque()
            self._items.append(item)
        elif isinstance(item, MailboxEvent):
            self._replace_all(Lagged(item.position, self.owner))
            self._budget.mark_behind()
        if self._ready is not None:
            try:
                self._ready()
            except Exception:
                _log.exception("subscriber_failed", owner=self.owner)

    def drop(self, position: Position) -> None:
        """Drop the events up to a position and those in the queue. The reader finds Lagged next."""
        newest = next((item for item in reversed(self._items or ()) if isinstance(item, MailboxEvent | Lagged)), None)
        self._budget.mark_behind()
        self.put(Lagged(newest.position if newest is not None else position, self.owner))

    def _replace_all(self, lagged: Lagged) -> None:
        """Replace the queue by one item, which does not count in the budget."""
        self._budget.release_dropped(sum(not isinstance(item, Lagged) for item in self._items or ()))
        self._items = deque((lagged,))

    def take(self) -> Item | None:
        """Remove and return the next item, if there is one."""
        if not self._items:
            return None
        item = self._items.popleft()
        if not self._items:
            # An empty queue would be most of the memory of an idle subscription.
            self._items = None
        self._budget.release(0 if isinstance(item, Lagged) else 1)
        return item

    def close(self) -> None:
        """Release the budget and take no more items."""
        self._closed = True
        while self.take() is not None:
            continue
        self._ready = self._receive = None
