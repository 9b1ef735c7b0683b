"""How much a process takes on: so many operations at a time that it still answers them soon (ADR 25).

What it can't take is refused at once and cheaply, so that what it does take is served at its best rate. How late the event loop
is tells how much that is: whatever a process has too much of, its loop has no time for.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

LOAD_SHEDDING_STATE = "confab.load_shedding"
"""Key in the lifespan's state for the application's Shedding, where its server finds it."""

TICK_SECONDS = 0.02
"""How often one looks how late the loop is."""

WINDOW_SECONDS = 0.1
"""Over which the loop has to be late each time, three times at least: one long step (a large group, garbage) is no overload."""

_LOOKS = 3

LATE_SECONDS = 0.05
"""What every step of an operation may wait for its turn. An operation has about ten."""

LONG_SECONDS = 0.75
"""What operations may take where so many are under way that they wait for each other, if not for the loop then for a database."""

VERY_LATE_SECONDS = 0.25
"""Past this nobody new is let in: a WebSocket costs as much as several operations, and brings more of them."""

LONGEST_STEP_SECONDS = 1.0
"""Nor within a step of the loop that takes longer: thousands may knock in one."""

LEAST_OPERATIONS = 64
"""Under way at once, however late the loop is: what goes to the databases together costs least."""

MOST_BEHIND = 20_000
"""What is still to be done for operations that were answered (the rest of large groups, receipts, frames to other servers): more of that,
and nothing new is taken until it is done."""

_LESS, _MORE = 0.85, 1.05
_KEPT = 0.7
_SAY_SECONDS = 5.0

HANDSHAKE_REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)
"""To who wants to open a WebSocket: browsers and clients take it for a connection that was lost, and come back."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RefusalCounts:
    """What was refused so far."""

    operations: int = 0
    connections: int = 0


class LoadShedding:
    """What a process has under way, and whether it takes more. `open` before use, `close` in the end.

    Whoever begins an operation asks `enter`, and calls `leave` when it has ended.
    """

    def __init__(self, most: int, least: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`most` operations under way while the loop is in time, never fewer than `least`. clock: seconds; unlike the loop's
        it goes on within a step."""
        self._most = most
        self._least = min(least, most)
        self._clock = clock
        self._due = clock() + TICK_SECONDS
        self._window_ends = self._due + WINDOW_SECONDS
        self._least_late = math.inf
        self._looks = 0
        self._standing = 0.0
        self._ended = 0
        self._rate = math.inf
        self._window_began = self._due
        self._few_at = self._due
        self._timer: asyncio.TimerHandle | None = None
        self._said = RefusalCounts()
        self._say_at = 0.0
        self.limit = most
        """Operations that may be under way now."""
        self.under_way = 0
        self.shed = RefusalCounts()
        self.behind: Callable[[], int] = lambda: 0
        """How much is still to be done for operations that were answered."""
        self._is_behind = False
        self.on_tick: Callable[[float], None] = lambda late: None
        """Told how late (seconds) the loop was, each time one looked."""

    def open(self) -> None:
        """Begins to look at the loop."""
        self._due = self._clock() + TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def close(self) -> None:
        """Stops."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_full(self) -> bool:
        """Whether another operation would be refused."""
        return self.under_way >= self.limit or self._is_behind

    def enter(self) -> bool:
        """Counts an operation in. False: it is to be refused, and was not counted."""
        if self.is_full:
            return False
        self.under_way += 1
        return True

    def leave(self) -> None:
        """One that was counted in has ended."""
        self.under_way -= 1
        self._ended += 1

    def refuse_connection(self) -> bool:
        """Whether somebody who wants to connect is to be refused; counted then. Also told within a step that takes long."""
        refused = self._standing > VERY_LATE_SECONDS or self._clock() - self._due > LONGEST_STEP_SECONDS
        self.shed.connections += refused
        return refused

    def _tick(self) -> None:
        loop, now = asyncio.get_running_loop(), self._clock()
        self.look(now)
        self._timer = loop.call_later(TICK_SECONDS, self._tick)

    def look(self, now: float) -> None:
        """The loop's turn has come, at this time of the clock."""
        late = max(0.0, now - self._due)
        self._due = now + TICK_SECONDS
        self._least_late = min(self._least_late, late)
        self._looks += 1
        self._is_behind = self.behind() > MOST_BEHIND
        if self.under_way <= self._least:
            self._few_at = now
        self.on_tick(late)
        if now < self._window_ends or self._looks < _LOOKS:
            return
        self._standing, self._least_late = self._least_late, math.inf
        self._looks = 0
        takes = self._takes(now)
        if self.under_way > self._least and (self._standing > LATE_SECONDS or takes > LONG_SECONDS):
            self.limit = max(self._least, int(min(self.limit, self.under_way) * _LESS))
        elif self.limit < self._most:
            self.limit = min(self._most, int(self.limit * _MORE) + 1)
        self._window_began, self._window_ends, self._ended = now, now + WINDOW_SECONDS, 0
        self._say(now)

    def _takes(self, now: float) -> float:
        """Seconds that an operation takes, as so many are under way and so many end. They end in batches, so it is smoothed. None
        has taken longer than many have been under way: where all began at once, none has ended yet."""
        rate = self._ended / (now - self._window_began)
        self._rate = rate if self._rate == math.inf else _KEPT * self._rate + (1 - _KEPT) * rate
        takes = self.under_way / self._rate if self._rate else math.inf
        return min(takes, now - self._few_at)

    def _say(self, now: float) -> None:
        """A line for many that were refused: one each would cost more than they do."""
        operations = self.shed.operations - self._said.operations
        connections = self.shed.connections - self._said.connections
        if (operations or connections) and now >= self._say_at:
            log.warning("shedding", operations=operations, connections=connections, limit=self.limit)
            self._said = RefusalCounts(self.shed.operations, self.shed.connections)
            self._say_at = now + _SAY_SECONDS
