"""What waits for a subscriber: events at their positions, in a queue that is bounded by the room of its connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import structlog

from store.base.ids import UserId
from subscriptions.realtime.events import Ephemeral, Event

_log = structlog.get_logger()


class Position(NamedTuple):
    """A place on a user's clock. Ticks can be compared within one epoch: one stay of the user's state in the cache.

    `ahead`: ticks past it whose events have been told as well. `began`: where the clock stood when sessions began to be told
    from the first one on, of which this is not the last page.
    """

    epoch: str
    tick: int
    ahead: tuple[int, ...] = ()
    began: int = 0


class Delivered(NamedTuple):
    """An event that happened at a position."""

    position: Position
    event: Event


class Lagged(NamedTuple):
    """Events were lost to this subscriber up to a position: it has to read its state anew. What follows is whole again."""

    position: Position


Item = Delivered | Lagged | Ephemeral


class QueueBudget:
    """How many events may wait for one connection, over all its subscriptions."""

    __slots__ = ("behind_since", "limit", "used")

    def __init__(self, limit: int = 1_000) -> None:
        self.limit = limit
        self.used = 0
        self.behind_since: float | None = None
        """The loop's time at which events were dropped for want of room, until all that waits has been taken."""

    def take_place(self) -> bool:
        """Whether there was room for one more."""
        if self.used >= self.limit:
            return False
        self.used += 1
        return True

    def overflow(self) -> None:
        """Events are being dropped."""
        if self.behind_since is None:
            self.behind_since = asyncio.get_running_loop().time()

    def leave(self, count: int) -> None:
        """So many were taken."""
        self.used -= count
        if self.used == 0:
            self.behind_since = None

    def drop(self, count: int) -> None:
        """So many wait no longer, and were not taken: who is behind is no less so."""
        self.used -= count


class Mailbox:
    """One subscriber's queue, bounded by the room of its connection. One that finds no room is emptied, and its reader told so:
    Lagged. Both ends are plain calls, on one loop."""

    __slots__ = ("_items", "_left", "_ready", "_room", "start", "user")

    def __init__(self, user: UserId, start: Position, room: QueueBudget) -> None:
        self.user = user
        self.start = start
        self._room = room
        self._items: deque[Item] | None = None
        self._ready: Callable[[], None] | None = None
        self._left = False

    def on_ready(self, call: Callable[[], None]) -> None:
        """`call` is made whenever something was put."""
        self._ready = call

    def put(self, item: Item) -> None:
        """Never blocks or raises. What is ephemeral is dropped where there is no room."""
        if self._left:
            # While others were told the same. Nobody would ever take it, and give its room back.
            return
        if isinstance(item, Lagged):
            self._drop_for(item)
        elif self._room.take_place():
            if self._items is None:
                self._items = deque()
            self._items.append(item)
        elif isinstance(item, Delivered):
            self._drop_for(Lagged(item.position))
            self._room.overflow()
        if self._ready is not None:
            try:
                self._ready()
            except Exception:
                _log.exception("a subscriber failed at what it was told", user=self.user)

    def _drop_for(self, lagged: Lagged) -> None:
        """It takes no room: there is one at most, and it stands for all that was dropped."""
        self._room.drop(sum(not isinstance(item, Lagged) for item in self._items or ()))
        self._items = deque((lagged,))

    def take(self) -> Item | None:
        """The next item, if there is one."""
        if not self._items:
            return None
        item = self._items.popleft()
        if not self._items:
            # An empty queue would be most of what an idle subscription takes.
            self._items = None
        self._room.leave(0 if isinstance(item, Lagged) else 1)
        return item

    def leave(self) -> None:
        """Gives its room back, and takes none any more."""
        self._left = True
        while self.take() is not None:
            continue
        self._ready = None
