"""The nodes of a cluster that do not answer."""

from __future__ import annotations

import time

from store.redis.cluster.url import Address

_FORGOTTEN_AFTER_SECONDS = 3.0
"""Time after the last failure from which on a node gets calls again. Nodes are pinged once a second."""


class FailingNodes:
    """Knows since when nodes have been failing. Costs nothing while all nodes answer."""

    def __init__(self, away_after_seconds: float) -> None:
        """Begin without failures. away_after_seconds: a node that fails for this time is away."""
        self._away_after_seconds = away_after_seconds
        self._failing: dict[Address, tuple[float, float]] = {}
        """The times of the first and the last failure since the last answer, by `time.monotonic`."""

    def note_failure(self, address: Address) -> None:
        """Note that a node did not answer, or that no connection to it could be opened."""
        now = time.monotonic()
        first, last = self._failing.get(address, (now, now))
        self._failing[address] = (now if now - last > _FORGOTTEN_AFTER_SECONDS else first, now)

    def note_answer(self, address: Address) -> None:
        """Note that a node has answered."""
        if self._failing:
            self._failing.pop(address, None)

    def is_away(self, address: Address) -> bool:
        """Return whether a node has failed for some time, so that calls to it should not wait."""
        times = self._failing.get(address) if self._failing else None
        if times is None:
            return False
        now = time.monotonic()
        return now - times[0] > self._away_after_seconds and now - times[1] < _FORGOTTEN_AFTER_SECONDS
