"""Metrics of pushes: waiting work, decisions, and pushes by service and outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resolvers.push.worker.push_worker import PushWorker
from store.store import Store


class WaitingPushes(NamedTuple):
    """The work of the deployment that waits for workers. Ages in ms."""

    conversations: int
    conversation_age_ms: int
    intents: int
    intent_age_ms: int


async def measure_pushes(store: Store) -> WaitingPushes:
    """Return the work that waits. Two round trips that no request waits for. Raises Unreachable."""
    return WaitingPushes(*await store.noted_conversations.measure(), *await store.push_intents.measure())


def collect_pushes(worker: PushWorker | None, waiting: WaitingPushes | None) -> Iterator[Metric]:
    """Yield the metrics; none if there are no pushes. waiting: None if it is not known."""
    if worker is None:
        return
    sent = CounterMetricFamily(
        "confab_pushes", "Pushes that this process sent, by their outcome.", labels=["service", "outcome"]
    )
    for (platform, outcome), count in worker.sender.outcomes.items():
        sent.add_metric([platform, outcome], count)
    for platform, count in worker.sender.given_up.items():
        sent.add_metric([platform, "GIVEN_UP"], count)
    yield sent
    decisions = CounterMetricFamily(
        "confab_push_decisions", "Decisions of this process whether to notify a user.", labels=["verdict"]
    )
    for verdict, count in worker.batch.verdicts.items():
        decisions.add_metric([verdict], count)
    yield decisions
    if waiting is None:
        return
    counts = GaugeMetricFamily("confab_push_waiting", "Work of the deployment that waits for workers.", labels=["of"])
    counts.add_metric(["conversation"], waiting.conversations)
    counts.add_metric(["intent"], waiting.intents)
    yield counts
    ages = GaugeMetricFamily(
        "confab_push_waiting_age_seconds", "Time for which the oldest of this work is overdue.", labels=["of"]
    )
    ages.add_metric(["conversation"], waiting.conversation_age_ms / 1000)
    ages.add_metric(["intent"], waiting.intent_age_ms / 1000)
    yield ages
