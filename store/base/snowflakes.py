"""Message and group ids: 42 bits of milliseconds, 5 of data centre, 5 of worker, 12 of sequence.

Ids are unique as long as no two running processes have the same data centre and worker number, and a process that takes
over a number begins after all ids of the process before. Leases in MongoDB guarantee both. Ids of one process increase,
also when its clock steps back.
"""

from __future__ import annotations

from store.base.clock import Clock
from store.base.errors import Unreachable

EPOCH_MS = 1_735_689_600_000
"""2025-01-01T00:00:00Z. 42 bits last until 2164."""

WORKERS = 32
"""Worker numbers of a data centre."""


def created_at_ms(snowflake: int) -> int:
    """Return the time at which an id was created, in ms since the Unix epoch."""
    return (snowflake >> 22) + EPOCH_MS


def first_id_at(ms: int) -> int:
    """Return the smallest id that can be created at a time (ms since the Unix epoch)."""
    return max(0, ms - EPOCH_MS) << 22


class Snowflakes:
    """Creates ids until `valid_until_ms`, when the lease of the worker number ends."""

    def __init__(self, clock: Clock, data_center: int) -> None:
        self._clock = clock
        self._data_center = data_center
        self._last_ms = 0
        self._sequence = 0
        self.worker = 0
        self.valid_until_ms = 0

    def stop(self) -> int:
        """Create no ids until the next lease. Returns a time (ms) that is later than all ids so far."""
        self.valid_until_ms = 0
        return self._last_ms + 1

    def next(self) -> int:
        """Return a new id. Raises Unreachable while the process has no worker number."""
        at, sequence = self._clock.now_ms(), 0
        if at <= self._last_ms:
            # The clock stands still or stepped back: continue after the last id.
            at, sequence = self._last_ms, self._sequence + 1
            if sequence == 4096:
                at, sequence = at + 1, 0
        if at >= self.valid_until_ms:
            raise Unreachable("this process has no worker number at the moment")
        self._last_ms, self._sequence = at, sequence
        return at - EPOCH_MS << 22 | self._data_center << 17 | self.worker << 12 | sequence

    def next_pair(self) -> int:
        """Return a new id. The following number is an id of the caller too. Raises Unreachable like `next`."""
        first = self.next()
        if self._sequence == 4095:
            first = self.next()
        self._sequence += 1
        return first
