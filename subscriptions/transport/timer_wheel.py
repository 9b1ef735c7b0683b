"""The timers of all connections of a process, served by one timer of the event loop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import chain

import structlog

_log = structlog.get_logger()

RESOLUTION_SECONDS = 0.5
"""Length of a bucket. All timers of a bucket are due together, so that one wake-up of the loop serves them."""


def _ignore() -> None:
    pass


class WheelTimer:
    """A call that is due with its bucket."""

    __slots__ = ("bucket", "call")

    def __init__(self, bucket: int, call: Callable[[], None]) -> None:
        self.bucket = bucket
        self.call = call


class TimerWheel:
    """Timers in buckets by time. Use it on one event loop.

    A timer costs a small object. One of the event loop would cost several times as much, and a wake-up of its own.
    """

    def __init__(
        self,
        resolution_seconds: float = RESOLUTION_SECONDS,
        clock: Callable[[], float] | None = None,
        wake_at: Callable[[float, Callable[[], None]], asyncio.TimerHandle] | None = None,
    ) -> None:
        """Start empty. clock, wake_at: `time` and `call_at` of the event loop, unless a test replaces them."""
        self._resolution = resolution_seconds
        self._clock = clock
        self._wake_at = wake_at
        self._buckets: dict[int, dict[WheelTimer, None]] = {}
        self._order: list[int] = []
        """The numbers of the buckets as a heap."""
        self._handle: asyncio.TimerHandle | None = None
        self._next = 0

    @property
    def now(self) -> float:
        """The time in seconds."""
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()

    def call_after(self, seconds: float, call: Callable[[], None], *, early: bool = False) -> WheelTimer:
        """Make a call after some seconds: at most one bucket late, or with `early` at most one bucket early."""
        at = (self.now + seconds) / self._resolution
        number = math.floor(at) if early else math.ceil(at)
        timer = WheelTimer(number, call)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = {}
            heappush(self._order, number)
            if self._handle is None or number < self._next:
                self._arm(number)
        bucket[timer] = None
        return timer

    def cancel(self, timer: WheelTimer) -> None:
        """Forget a timer. Does nothing after its call."""
        timer.call = _ignore  # its bucket may be in the middle of its calls
        bucket = self._buckets.get(timer.bucket)
        if bucket is not None:
            bucket.pop(timer, None)

    def _arm(self, number: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._next = number
        wake_at = self._wake_at or asyncio.get_running_loop().call_at
        self._handle = wake_at(number * self._resolution, self._call_due)

    def _call_due(self) -> None:
        """Make all calls that are due. Buckets that became empty cost one wake-up.

        Timers that these calls add have to wait, even if they are due: after a pause of the process, the loop first
        reads what has arrived meanwhile.
        """
        self._handle = None
        due, buckets = self.now / self._resolution, []
        while self._order and self._order[0] <= due:
            buckets.append(self._buckets.pop(heappop(self._order)))
        for timer in chain.from_iterable(buckets):
            try:
                timer.call()
            except Exception:
                _log.exception("timer_failed")
        if self._order and (self._handle is None or self._order[0] < self._next):
            self._arm(self._order[0])
