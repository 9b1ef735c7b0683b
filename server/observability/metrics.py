"""What a process tells Prometheus about itself. Read when it is asked for; what counts along the way are plain numbers elsewhere.

Labels come from closed lists: root fields of the schema, error codes, names of stages. Never a user, a conversation, a document's
own name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from resolvers.base.app import Confab
from server.overload.load_shedding import LoadShedding
from server.overload.operation_meter import OperationMeter
from store.base.counters import SECONDS, Histogram, HitCounter
from store.base.errors import StoreError, failures

_AGE_EVERY = 10.0
"""Seconds for which the outboxes' age is not asked for again: it is the same on all servers."""

_AGE_PATIENCE = 1.0


@dataclass(slots=True)
class MetricSources:
    """What is told of."""

    app: Confab
    operations: OperationMeter
    shedding: LoadShedding
    connections: Callable[[], int]
    """WebSockets."""
    streams: Callable[[], int]
    """Event streams."""
    migrated: Callable[[], int]
    """Rows."""
    loop_late: Histogram = field(default_factory=lambda: Histogram(SECONDS))


class Metrics(Collector):
    """All figures of a process, in Prometheus's text format."""

    def __init__(self, parts: MetricSources) -> None:
        self._parts = parts
        self._age_ms: int | None = None
        self._age_at = -_AGE_EVERY
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        parts.shedding.on_tick = parts.loop_late.observe

    async def text(self) -> bytes:
        """Never fails: what can't be asked is left out."""
        now = time.monotonic()
        if now - self._age_at >= _AGE_EVERY:
            self._age_at = now
            try:
                async with asyncio.timeout(_AGE_PATIENCE):
                    self._age_ms = await self._parts.app.store.outbox.oldest_age_ms()
            except (StoreError, TimeoutError):
                self._age_ms = None
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield from self._operations()
        yield from self._taking_on()
        yield from self._writing()
        yield from self._databases()
        yield from self._listening()
        migrated = self._parts.migrated()
        yield CounterMetricFamily(
            "confab_migrated_rows", "Rows that this process brought to a new form.", value=migrated
        )
        info = GaugeMetricFamily("confab_info", "Always 1.", labels=["version"])
        info.add_metric([version("confab")], 1)
        yield info

    def _operations(self) -> Iterator[Metric]:
        meter = self._parts.operations
        ended = CounterMetricFamily(
            "confab_operations", "Operations that ended, by their first error code.", labels=["field", "kind", "code"]
        )
        for (root, kind, code), count in meter.ended.items():
            ended.add_metric([root, kind, code], count)
        yield ended
        seconds = HistogramMetricFamily(
            "confab_operation_seconds",
            "From the document until the result; a subscription's until it listens.",
            labels=["field", "kind"],
        )
        for (root, kind), histogram in meter.seconds.items():
            seconds.add_metric([root, kind], _buckets(histogram), histogram.total)
        yield seconds

    def _taking_on(self) -> Iterator[Metric]:
        shedding = self._parts.shedding
        yield _gauge("confab_operations_under_way", "Operations begun and not ended.", shedding.under_way)
        yield _gauge("confab_operations_limit", "How many may be under way now.", shedding.limit)
        shed = {"operation": shedding.shed.operations, "connection": shedding.shed.connections}
        yield _counters("confab_shed", "Refused because the process has too much to do.", "what", shed)
        yield _histogram("confab_loop_late_seconds", "How late the event loop calls.", self._parts.loop_late)

    def _writing(self) -> Iterator[Metric]:
        app = self._parts.app
        commits = app.store.commits
        yield _histogram("confab_commit_messages", "Messages that were stored together.", commits.sizes)
        yield _histogram("confab_commit_seconds", "What storing them took.", commits.seconds)
        depths = dict(zip(("commit", "show", "lane", "all"), app.delivery.depths, strict=True))
        yield _gauges("confab_messages_waiting", "Messages on their way, by what they wait for.", "stage", depths)
        after = {"bus": app.bus.under_way, "receipts": app.receipts.under_way}
        yield _gauges("confab_after_answer", "What is still to be done for operations that were answered.", "of", after)
        if self._age_ms is not None:
            yield _gauge(
                "confab_outbox_age_seconds",
                "Age of the oldest message of the deployment that is not delivered.",
                self._age_ms / 1000,
            )

    def _databases(self) -> Iterator[Metric]:
        store = self._parts.app.store
        trips = {"mongodb": store.mongo.trips, "redis": store.cache.trips, "redis_aside": store.cache.background_trips}
        yield _counters(
            "confab_round_trips", "Round trips that were waited for; aside: after the answer.", "database", trips
        )
        failed = {database: failures[database] for database in ("mongodb", "redis")}
        yield _counters("confab_database_failures", "Calls that failed.", "database", failed)
        yield _gauge("confab_redis_waiting", "Callers whose commands were not sent yet.", store.cache.queued)
        looked: dict[str, HitCounter] = {
            "state": store.sessions.looked,
            "head": store.conversations.heads,
            "group": store.conversations.groups,
        }
        cache = CounterMetricFamily("confab_cache", "Reads of what Redis may hold.", labels=["of", "outcome"])
        for name, found in looked.items():
            cache.add_metric([name, "hit"], found.hits)
            cache.add_metric([name, "miss"], found.misses)
        yield cache

    def _listening(self) -> Iterator[Metric]:
        hub = self._parts.app.hub
        open_now = {"websocket": self._parts.connections(), "event_stream": self._parts.streams()}
        yield _gauges("confab_connections", "Connections that last.", "of", open_now)
        yield _gauge("confab_subscriptions", "Subscribers to events.", hub.mailboxes)
        yield CounterMetricFamily("confab_resets", "How often a client was told to begin anew.", value=hub.resets)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _gauges(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _filled(GaugeMetricFamily(name, help_text, labels=[label]), values)


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _filled(CounterMetricFamily(name, help_text, labels=[label]), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, float]) -> Metric:
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _histogram(name: str, help_text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(name, help_text, buckets=_buckets(histogram), sum_value=histogram.total)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds: Iterable[str] = [*(f"{float(bound):g}" for bound in histogram.bounds), "+Inf"]
    total, buckets = 0, []
    for bound, count in zip(bounds, histogram.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
