"""Metrics of outgoing webhooks: pending events, and attempts by outcome."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resolvers.webhooks.outgoing.webhook_parts import WebhookParts


def collect_webhooks(webhooks: WebhookParts, now_ms: int) -> Iterator[Metric]:
    """Yield the metrics of outgoing webhooks. Only the process that writes their log knows the pending events."""
    attempts = CounterMetricFamily(
        "confab_webhook_attempts", "Attempts of this process to deliver an event, by outcome.", labels=["outcome"]
    )
    for outcome, count in webhooks.worker.outcomes.items():
        attempts.add_metric([outcome], count)
    yield attempts
    waiting = webhooks.waiting
    yield GaugeMetricFamily(
        "confab_webhook_events_waiting",
        "Events of the deployment that are not delivered, up to 100,000.",
        value=waiting.events,
    )
    age_ms = max(0, now_ms - waiting.oldest_ms) if waiting.oldest_ms is not None else 0
    yield GaugeMetricFamily(
        "confab_webhook_events_age_seconds", "Time since the oldest of them happened.", value=age_ms / 1000
    )
    yield GaugeMetricFamily("confab_webhooks_paused", "PAUSED webhooks of the deployment.", value=waiting.paused)
