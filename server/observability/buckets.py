"""The form in which Prometheus takes histograms."""

from __future__ import annotations

from collections.abc import Iterable

from store.base.counters import Histogram


def buckets_of(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the cumulative counts of a histogram, with their bounds as text."""
    bounds: Iterable[str] = [*(f"{float(bound):g}" for bound in histogram.bounds), "+Inf"]
    total, buckets = 0, []
    for bound, count in zip(bounds, histogram.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
