"""The Mann-Whitney test: whether one of two samples tends to have larger values than the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import erfc, sqrt
from statistics import median

FALSE_ALARMS = 1 / 10_000
"""Runs of a whole test in which it fails although there is no difference."""


@dataclass(frozen=True)
class RankTest:
    """The comparison of two samples.

    Attributes:
        name: The operation that was measured.
        departed: Response times (s) about users who departed.
        invisible: Response times (s) about INVISIBLE users.
    """

    name: str
    departed: Sequence[float]
    invisible: Sequence[float]

    @property
    def u(self) -> float:
        """The pairs of one value of each sample in which the one of `invisible` is larger; equal ones count half."""
        counts = Counter((*self.departed, *self.invisible))
        values = sorted(counts)
        ends = accumulate(counts[value] for value in values)
        ranks = {value: end - (counts[value] - 1) / 2 for value, end in zip(values, ends, strict=True)}
        n = len(self.invisible)
        return sum(ranks[value] for value in self.invisible) - n * (n + 1) / 2

    @property
    def z(self) -> float:
        """The distance of `u` from its mean in standard deviations. Positive: about INVISIBLE users it takes longer."""
        n, m = len(self.departed), len(self.invisible)
        total = n + m
        ties = sum(count**3 - count for count in Counter((*self.departed, *self.invisible)).values())
        variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
        return (self.u - n * m / 2) / sqrt(variance) if variance else 0.0

    @property
    def p(self) -> float:
        """The probability of such a distance, or a larger one, in either direction, if there is no difference."""
        return erfc(abs(self.z) / sqrt(2))

    def __str__(self) -> str:
        departed, invisible = (median(times) * 1000 for times in (self.departed, self.invisible))
        counts = f"{len(self.departed):5} {len(self.invisible):5}"
        return f"{self.name:43} {counts} {departed:8.3f} {invisible:8.3f} {self.u:10.0f} {self.z:6.2f} {self.p:9.2g}"


HEADLINE = f"{'operation':43} {'n gone':>5} {'n inv':>4} {'ms gone':>8} {'ms inv':>8} {'U':>10} {'z':>6} {'p':>9}"


def find_differences(tests: Sequence[RankTest]) -> list[RankTest]:
    """Return the comparisons that show a difference, at a level that allows for their number (Bonferroni)."""
    return [test for test in tests if test.p < FALSE_ALARMS / len(tests)]
