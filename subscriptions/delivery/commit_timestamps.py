"""Commit timestamps."""

from __future__ import annotations

from store.base.clock import Clock

_LONGEST_LEAD_MS = 50


class CommitTimestamps:
    """The timestamps of one process. They grow strictly, as long as they are less than 50 ms ahead of its clock.

    A tick that equals a message's timestamp is not stored, because it can be derived from MongoDB.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def take(self, count: int) -> list[int]:
        """Return a timestamp (ms) for each message of a batch, in ascending order."""
        now = self._clock.now_ms()
        timestamps = []
        for _ in range(count):
            self._last = max(now, min(self._last + 1, now + _LONGEST_LEAD_MS))
            timestamps.append(self._last)
        return timestamps
