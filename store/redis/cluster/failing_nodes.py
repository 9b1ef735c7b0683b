"""The nodes of a cluster that do not answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from store.redis.cluster.url import Address

AWAY_AFTER_SECONDS = 2.0
"""If no connection to a node can be opened for this time, calls to it fail at once.

Otherwise calls to other nodes would wait with them: those of the same caller, and of messages in the same batch.
"""

AWAY_AFTER_SILENCE_SECONDS = 5.0
"""The same time for a node that accepts connections and does not answer: it may be busy."""

_FORGOTTEN_AFTER_SECONDS = 3.0
"""Time after the last failure after which a node gets calls again. Pings, once a second, renew the failure."""


class FailingNodes:
    """The times of failures of each node since its last answer. Costs nothing while all nodes answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without failures. clock: seconds."""
        self._clock = clock
        self._failing: dict[Address, tuple[float, float, float]] = {}
        """Of each node: when the first and the last failure were, and how long it may fail until it counts as away."""

    def note_failure(self, address: Address, *, is_silent: bool = False) -> None:
        """Note that calls to a node failed. is_silent: it is connected, but has not answered in time."""
        now = self._clock()
        first, last, _ = self._failing.get(address, (now, now, 0.0))
        allowed = AWAY_AFTER_SILENCE_SECONDS if is_silent else AWAY_AFTER_SECONDS
        self._failing[address] = (now if now - last > _FORGOTTEN_AFTER_SECONDS else first, now, allowed)

    def note_answer(self, address: Address) -> None:
        """Note that a node has answered."""
        if self._failing:
            self._failing.pop(address, None)

    def is_away(self, address: Address) -> bool:
        """Return whether a node has failed for some time, so that calls to it should not wait."""
        times = self._failing.get(address) if self._failing else None
        if times is None:
            return False
        first, last, allowed = times
        now = self._clock()
        return now - first > allowed and now - last < _FORGOTTEN_AFTER_SECONDS
