"""Limits how many operations run at once, so that the admitted ones are answered quickly (ADR 25).

More operations are refused at once and cheaply, so that the admitted ones run at the best rate. The limit follows the
delay of the event loop: any kind of overload delays the loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

LOAD_SHEDDING_STATE = "confab.load_shedding"
"""Key of the application's LoadShedding in the lifespan state, where the HTTP server finds it."""

TICK_SECONDS = 0.02
"""Interval at which the loop's delay is measured."""

IDLE_TICK_SECONDS = 0.5
"""Interval while nothing runs. It ends with the next operation or connection."""

WINDOW_SECONDS = 0.1
"""The loop is late only if all measurements in this time are late. One long step (a large group, garbage collection) is
not an overload."""

_MIN_TICKS_PER_WINDOW = 3

LATE_SECONDS = 0.05
"""Acceptable delay of each step of an operation. An operation has about ten steps."""

LONG_SECONDS = 0.75
"""Acceptable duration of an operation. Longer means that operations wait for each other, for example for a database."""

VERY_LATE_SECONDS = 0.25
"""Loop delay above which new WebSockets are refused. One costs as much as several operations, and starts more."""

LONGEST_STEP_SECONDS = 1.0
"""Duration of a step of the loop above which new WebSockets are refused. Thousands may connect in one step."""

MIN_OPERATIONS = 64
"""Operations that are admitted however late the loop is: batched database calls cost least."""

MAX_BACKLOG = 20_000
"""Maximum number of work items that answered operations left behind (members of large groups, receipts, frames to
other servers). Above it nothing is admitted."""

_DECREASE, _INCREASE = 0.85, 1.05
_SMOOTHING = 0.7
_LOG_INTERVAL_SECONDS = 5.0

HANDSHAKE_REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)
"""Response to a refused WebSocket handshake. Browsers and clients treat it as a lost connection, and reconnect."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RefusalCounts:
    """Numbers of refused operations and connections."""

    operations: int = 0
    connections: int = 0


class LoadShedding:
    """Counts running operations, and decides whether another one is admitted.

    Call `enter` before an operation and `leave` after it. Call `open` before use and `close` at the end.
    """

    def __init__(self, max_operations: int, min_operations: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a limit between `min_operations` and `max_operations`.

        `clock` returns seconds. Unlike the loop's clock it advances within a step.
        """
        self._max = max_operations
        self._min = min(min_operations, max_operations)
        self._clock = clock
        self._due = clock() + TICK_SECONDS
        self._window_ends = self._due + WINDOW_SECONDS
        self._window_delay = math.inf
        self._ticks = 0
        self._delay = 0.0
        self._ended = 0
        self._rate = math.inf
        self._window_began = self._due
        self._below_min_at = self._due
        self._timer: asyncio.TimerHandle | None = None
        self._is_idle = False
        self._outside_queue = 0
        self._logged = RefusalCounts()
        self._log_at = 0.0
        self.limit = max_operations
        """Operations that may run at the moment."""
        self.running = 0
        self.active_users: Callable[[], int] = lambda: 0
        """Returns the number of users whose operations run."""
        self.refused = RefusalCounts()
        self.backlog: Callable[[], int] = lambda: 0
        """Returns the amount of work left over from answered operations."""
        self._has_backlog = False
        self.on_tick: Callable[[float], None] = lambda delay: None
        """Called with the loop's delay in seconds after each measurement."""

    def open(self) -> None:
        """Start to measure the loop's delay."""
        self._due = self._clock() + TICK_SECONDS
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def close(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def is_full(self) -> bool:
        """True if another operation would be refused.

        All operations of one user count as one here, so that no user can make the process refuse others.
        `OperationQueue` limits how many operations of one user run.
        """
        return self._outside_queue + self.active_users() >= self.limit or self._has_backlog

    def enter(self) -> bool:
        """Admit work that the operation queue does not count. Returns False if it has to be refused."""
        if self._is_idle:
            self._end_idle_time()
        if self.is_full:
            return False
        self._outside_queue += 1
        self.running += 1
        return True

    def leave(self) -> None:
        """Report the end of work that `enter` admitted."""
        self._outside_queue -= 1
        self.end_operation()

    def begin_operation(self) -> None:
        """Count an operation that the operation queue admitted."""
        if self._is_idle:
            self._end_idle_time()
        self.running += 1

    def end_operation(self) -> None:
        """Report the end of an operation."""
        self.running -= 1
        self._ended += 1

    def refuse_connection(self) -> bool:
        """Return whether a new connection has to be refused, and count it if so. Also detects a long current step."""
        refused = self._delay > VERY_LATE_SECONDS or self._clock() - self._due > LONGEST_STEP_SECONDS
        if self._is_idle:
            self._end_idle_time()
        self.refused.connections += refused
        return refused

    def _tick(self) -> None:
        now = self._clock()
        window_began = self._window_began
        self.measure(now)
        if self._window_began != window_began:
            # A window has ended.
            self._is_idle = self._has_no_load
        interval = IDLE_TICK_SECONDS if self._is_idle else TICK_SECONDS
        self._due = now + interval
        self._timer = asyncio.get_running_loop().call_later(interval, self._tick)

    @property
    def _has_no_load(self) -> bool:
        """True if nothing runs, nothing was late, and the limit has recovered."""
        is_calm = self._delay <= LATE_SECONDS and self.refused == self._logged and not self._has_backlog
        return self.running == 0 and self.limit == self._max and is_calm

    def _end_idle_time(self) -> None:
        """Measure often again. The idle time does not count in the rate at which operations end."""
        self._is_idle = False
        if self._timer is not None:
            self.close()
            now = self._clock()
            self._window_began, self._window_ends, self._ended = now, now + WINDOW_SECONDS, 0
            self._window_delay, self._ticks = math.inf, 0
            self.open()

    def measure(self, now: float) -> None:
        """Measure the loop's delay at a time of the clock, and adapt the limit at the end of each window."""
        delay = max(0.0, now - self._due)
        self._due = now + TICK_SECONDS
        self._window_delay = min(self._window_delay, delay)
        self._ticks += 1
        self._has_backlog = self.backlog() > MAX_BACKLOG
        if self.running <= self._min:
            self._below_min_at = now
        self.on_tick(delay)
        if now < self._window_ends or self._ticks < _MIN_TICKS_PER_WINDOW:
            return
        self._delay, self._window_delay = self._window_delay, math.inf
        self._ticks = 0
        duration = self._estimate_duration(now)
        if self.running > self._min and (self._delay > LATE_SECONDS or duration > LONG_SECONDS):
            self.limit = max(self._min, int(min(self.limit, self.running) * _DECREASE))
        elif self.limit < self._max:
            self.limit = min(self._max, int(self.limit * _INCREASE) + 1)
        self._window_began, self._window_ends, self._ended = now, now + WINDOW_SECONDS, 0
        self._log_refusals(now)

    def _estimate_duration(self, now: float) -> float:
        """Estimate how many seconds an operation takes, from the number of running ones and the rate at which they end.

        Operations end in batches, so the rate is smoothed. The estimate is at most the time since the number of running
        operations exceeded the minimum: if they began together, perhaps none of them could end yet.
        """
        rate = self._ended / (now - self._window_began)
        self._rate = rate if self._rate == math.inf else _SMOOTHING * self._rate + (1 - _SMOOTHING) * rate
        duration = self.running / self._rate if self._rate else math.inf
        return min(duration, now - self._below_min_at)

    def _log_refusals(self, now: float) -> None:
        """Log refusals together: a line for each would cost more than the refusal."""
        operations = self.refused.operations - self._logged.operations
        connections = self.refused.connections - self._logged.connections
        if (operations or connections) and now >= self._log_at:
            log.warning("load_shed", operations=operations, connections=connections, limit=self.limit)
            self._logged = RefusalCounts(self.refused.operations, self.refused.connections)
            self._log_at = now + _LOG_INTERVAL_SECONDS
