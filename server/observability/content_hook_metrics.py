"""Metrics of the external hook for content."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from resolvers.content_rules.content_hook import ContentHook
from server.observability.buckets import buckets_of


def collect_content_hook(hook: ContentHook | None) -> Iterator[Metric]:
    """Yield the metrics of the hook; none if it is not set up."""
    if hook is None:
        return
    calls = CounterMetricFamily(
        "confab_content_hook_calls",
        "Messages and edits by outcome: allow, block, flag; failed: no answer; skipped: not asked, because it fails.",
        labels=["outcome"],
    )
    for outcome, count in hook.outcomes.items():
        calls.add_metric([outcome], count)
    yield calls
    seconds = HistogramMetricFamily("confab_content_hook_seconds", "Time that a message waited for the hook.")
    seconds.add_metric([], buckets_of(hook.seconds), hook.seconds.total)
    yield seconds
    is_open = hook.breaker.is_open
    yield GaugeMetricFamily("confab_content_hook_failing", "1 while the hook is not asked, else 0.", value=is_open)
