"""The times that messages are committed at."""

from __future__ import annotations

from store.base.clock import Clock

_LONGEST_LEAD_MS = 50


class CommitTimestamps:
    """Times of one process, no two the same while it is not far ahead of its clock: a tick that equals one can be told from MongoDB
    again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def take(self, count: int) -> list[int]:
        """A time for each message of a batch, in ms, rising."""
        now = self._clock.now_ms()
        stamps = []
        for _ in range(count):
            self._last = max(now, min(self._last + 1, now + _LONGEST_LEAD_MS))
            stamps.append(self._last)
        return stamps
