"""Time and chance, handed in so that tests own them."""

from __future__ import annotations

import time
from typing import Protocol

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, and is never set: on Linux the first of the two, elsewhere the second."""


class Clock(Protocol):
    """Wall-clock time. May step; whoever needs order takes it from seq or from the user's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's clock as it stood when this was made, and the time that went by since: setting it changes nothing."""

    def __init__(self) -> None:
        self._began_ns = time.time_ns() - time.clock_gettime_ns(_STEADY)

    def now_ms(self) -> int:
        return (self._began_ns + time.clock_gettime_ns(_STEADY)) // 1_000_000


class DeploymentClock:
    """The time of a deployment as one of its servers tells it: another clock's, and ahead of that by what `advance_to` said.

    Never goes back. Where the other one steps back, this one goes on from where it was.
    """

    def __init__(self, inner: Clock) -> None:
        self._inner = inner
        self._seen = inner.now_ms()
        self._lead = 0

    def now_ms(self) -> int:
        now = self._inner.now_ms()
        self._lead += max(0, self._seen - now)
        self._seen = now
        return now + self._lead

    def advance_to(self, ms: int) -> None:
        """Goes on from a time that somebody else has seen, unless it is past that."""
        self._lead += max(0, ms - self.now_ms())
