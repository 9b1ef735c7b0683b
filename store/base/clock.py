"""Time, handed in so that tests control it."""

from __future__ import annotations

import time
from typing import Protocol

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that cannot be set. On Linux it also counts the time during which the machine sleeps."""


class Clock(Protocol):
    """Wall-clock time. It may step back, so order comes from `seq` and from users' clocks instead."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The time of the machine when this object was created, plus the time since then.

    Setting the machine's clock has no effect.
    """

    def __init__(self) -> None:
        self._began_ns = time.time_ns() - time.clock_gettime_ns(_STEADY)

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return (self._began_ns + time.clock_gettime_ns(_STEADY)) // 1_000_000


class DeploymentClock:
    """One server's view of the deployment's time.

    It is the time of another clock plus the lead that `advance_to` added.
    Never goes back: if the other clock steps back, this one continues from where it was.
    """

    def __init__(self, inner: Clock) -> None:
        self._inner = inner
        self._seen = inner.now_ms()
        self._lead = 0

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch. Never goes back."""
        now = self._inner.now_ms()
        self._lead += max(0, self._seen - now)
        self._seen = now
        return now + self._lead

    def advance_to(self, ms: int) -> None:
        """Continue from a time that another server has reported, unless this clock is past it already."""
        self._lead += max(0, ms - self.now_ms())
