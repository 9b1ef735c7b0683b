"""Counters of one process, cheap to update and independent of the way in which they are exported."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
"""Bounds of buckets for times."""

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Bounds of buckets for batch sizes."""


class Histogram:
    """Counts each value at the smallest bound that is not below it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin at zero. bounds: in ascending order."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """One count per bound, not cumulative, and a last one for values above all bounds."""
        self.total = 0.0
        """Sum of the values."""

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class HitCounter:
    """Counts lookups that a cache answered, and lookups that had to load."""

    hits: int = 0
    misses: int = 0
