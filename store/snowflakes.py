"""Message and group ids: 42 bits of milliseconds, 5 of data centre, 5 of worker, 12 of sequence.

Unique as long as no two living processes hold the same data centre and worker number, which a lease in MongoDB sees to.
Increasing within a process, also when its clock steps back.
"""

from __future__ import annotations

from store.clock import Clock
from store.errors import Unreachable

EPOCH_MS = 1_735_689_600_000
"""2025-01-01T00:00:00Z. 42 bits last until 2164."""

WORKERS = 32
"""Worker numbers a data centre has."""


def created_at_ms(snowflake: int) -> int:
    """When an id was made, ms since the Unix epoch."""
    return (snowflake >> 22) + EPOCH_MS


def first_at(ms: int) -> int:
    """The smallest id that can be made at a time."""
    return max(0, ms - EPOCH_MS) << 22


class Snowflakes:
    """Makes ids. `valid_until_ms` ends the lease: past it nothing is made until it is renewed."""

    def __init__(self, clock: Clock, data_center: int) -> None:
        self._clock = clock
        self._data_center = data_center
        self._last_ms = 0
        self._sequence = 0
        self.worker = 0
        self.valid_until_ms = 0

    def next(self) -> int:
        """A new id. Raises Unreachable while the process holds no worker number."""
        now = self._clock.now_ms()
        if now >= self.valid_until_ms:
            raise Unreachable("this process holds no worker number at the moment")
        if now > self._last_ms:
            self._last_ms, self._sequence = now, 0
        else:
            # The clock stands or stepped back: go on from where the ids are.
            self._sequence += 1
            if self._sequence == 4096:
                self._last_ms, self._sequence = self._last_ms + 1, 0
        stamp = self._last_ms - EPOCH_MS
        return stamp << 22 | self._data_center << 17 | self.worker << 12 | self._sequence
