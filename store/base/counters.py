"""Counts that a process keeps of what it does. They cost next to nothing where they are made; who reads them is no concern of theirs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
"""Bounds for times."""

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
"""Bounds for how many go together."""


class Histogram:
    """How often values were up to each of some bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """bounds: growing."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """By bound, each without those before; the last one: past all bounds."""
        self.total = 0.0
        """Of the values."""

    def observe(self, value: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class HitCounter:
    """How often something was found in the cache, and how often it had to be loaded."""

    hits: int = 0
    misses: int = 0
