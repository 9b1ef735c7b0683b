"""Metrics of the index of messages: messages that wait, messages indexed, and the past."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from store.store import Store
from subscriptions.delivery.search.indexing import SearchIndexing


def collect_search(store: Store, indexing: SearchIndexing, waiting: tuple[int, int] | None) -> Iterator[Metric]:
    """Yield the metrics of the index; none if search is off.

    Args:
        store: The store.
        indexing: Writes the index.
        waiting: Number of messages that wait, and the time that the oldest has waited for (ms); None: not known.
    """
    if store.search_index is None:
        return
    yield CounterMetricFamily("confab_search_indexed", "Messages that this process indexed.", value=indexing.indexed)
    if waiting is not None:
        count, age_ms = waiting
        yield GaugeMetricFamily(
            "confab_search_waiting", "Messages of the deployment that wait for the index.", value=count
        )
        yield GaugeMetricFamily(
            "confab_search_waiting_age_seconds", "Time that the oldest of them has waited.", value=age_ms / 1000
        )
    known = store.index_states.known
    if known is not None:
        position_ms = known.state.indexed_up_to_ms
        behind = 0 if position_ms is None else max(0, store.clock.now_ms() - position_ms)
        yield GaugeMetricFamily(
            "confab_search_past_seconds",
            "Age of the oldest message of the past not indexed yet.",
            value=behind / 1000,
        )
