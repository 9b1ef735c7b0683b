"""A clock for tests."""

from __future__ import annotations

START_MS = 1_800_000_000_000
DAY_MS = 24 * 3600 * 1000


class ManualClock:
    """A clock that moves only when a test sets it."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self.ms = start_ms

    def now_ms(self) -> int:
        return self.ms
