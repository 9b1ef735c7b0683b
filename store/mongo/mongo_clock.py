"""The time by MongoDB's clock, which all processes share."""

from __future__ import annotations

import time

MONGO_NOW = {"$toLong": "$$NOW"}
"""That time in ms, in an aggregation expression."""


class MongoClock:
    """The time of MongoDB, for commands that run without a server: the clock of their machine may be wrong."""

    def __init__(self, now_ms: int) -> None:
        """Begin at a time that was read from MongoDB."""
        self._offset_ms = now_ms - int(time.monotonic() * 1000)

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int(time.monotonic() * 1000) + self._offset_ms
