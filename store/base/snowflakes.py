"""Message and group ids: 42 bits of milliseconds, 5 of data centre, 5 of worker, 12 of sequence.

Unique as long as no two living processes hold the same data centre and worker number, and who takes one over begins where
the holder before can't have come: a lease in MongoDB sees to both.
Increasing within a process, also when its clock steps back.
"""

from __future__ import annotations

from store.base.clock import Clock
from store.base.errors import Unreachable

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

    def stop(self) -> int:
        """Makes no more until the next lease. Answers a time, in ms, from which on no id was made."""
        self.valid_until_ms = 0
        return self._last_ms + 1

    def next(self) -> int:
        """A new id. Raises Unreachable while the process holds no worker number."""
        at, sequence = self._clock.now_ms(), 0
        if at <= self._last_ms:
            # The clock stands or stepped back: go on from where the ids are.
            at, sequence = self._last_ms, self._sequence + 1
            if sequence == 4096:
                at, sequence = at + 1, 0
        if at >= self.valid_until_ms:
            raise Unreachable("this process holds no worker number at the moment")
        self._last_ms, self._sequence = at, sequence
        return at - EPOCH_MS << 22 | self._data_center << 17 | self.worker << 12 | sequence
