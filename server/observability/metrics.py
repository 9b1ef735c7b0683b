"""Metrics for Prometheus. They are collected on request from plain counters of the other parts.

Label values come from closed lists: root fields of the schema, error codes, names of stages. They never contain users,
conversations or names of operations.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from resolvers.base.app import Confab
from resolvers.push.worker.push_worker import PushWorker
from resolvers.webhooks.outgoing.webhook_parts import WebhookParts
from server.observability.buckets import buckets_of
from server.observability.content_hook_metrics import collect_content_hook
from server.observability.limit_metrics import LimitSources, collect_limits
from server.observability.presence_metrics import collect_presence
from server.observability.push_metrics import WaitingPushes, collect_pushes, measure_pushes
from server.observability.search_metrics import collect_search
from server.observability.webhook_metrics import collect_webhooks
from server.observability.workspace_metrics import collect_workspaces
from server.overload.load_shedding import LoadShedding
from server.overload.operation_meter import OperationMeter
from store.base.counters import SECONDS, Histogram, HitCounter
from store.base.errors import StoreError, failures
from subscriptions.delivery.search.indexing import SearchIndexing

_AGE_CACHE_SECONDS = 10.0
"""Time for which the age of the outboxes is cached. It is the same on all servers."""

_AGE_TIMEOUT_SECONDS = 1.0


@dataclass(slots=True)
class MetricSources:
    """Sources of the metrics."""

    app: Confab
    operations: OperationMeter
    load_shedding: LoadShedding
    websocket_count: Callable[[], int]
    stream_count: Callable[[], int]
    migrated_row_count: Callable[[], int]
    limits: LimitSources
    files: Collector
    indexing: SearchIndexing
    push_worker: PushWorker | None
    webhooks: WebhookParts
    loop_delay: Histogram = field(default_factory=lambda: Histogram(SECONDS))


class Metrics(Collector):
    """All metrics of a process, in Prometheus's text format."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources
        self._age_ms: int | None = None
        self._waiting: tuple[int, int] | None = None
        self._waiting_pushes: WaitingPushes | None = None
        self._age_at = -_AGE_CACHE_SECONDS
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        sources.load_shedding.on_tick = sources.loop_delay.observe

    async def text(self) -> bytes:
        """Return the metrics. Never fails: metrics that cannot be read are omitted."""
        now = time.monotonic()
        if now - self._age_at >= _AGE_CACHE_SECONDS:
            self._age_at = now
            try:
                async with asyncio.timeout(_AGE_TIMEOUT_SECONDS):
                    store = self._sources.app.store
                    self._age_ms = await store.outbox.oldest_age_ms()
                    if store.search_index is not None:
                        self._waiting = await store.unindexed_messages.measure()
                    if self._sources.push_worker is not None:
                        self._waiting_pushes = await measure_pushes(store)
            except (StoreError, TimeoutError):
                self._age_ms = self._waiting = self._waiting_pushes = None
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield from self._collect_operations()
        yield from self._collect_load()
        yield from collect_limits(self._sources.limits)
        yield from self._sources.files.collect()
        yield from self._collect_writes()
        yield from collect_workspaces(self._sources.app)
        yield from collect_presence(self._sources.app)
        yield from collect_search(self._sources.app.store, self._sources.indexing, self._waiting)
        yield from collect_pushes(self._sources.push_worker, self._waiting_pushes)
        yield from collect_content_hook(self._sources.app.content_hook)
        yield from collect_webhooks(self._sources.webhooks, self._sources.app.store.clock.now_ms())
        yield from self._collect_databases()
        yield from self._collect_connections()
        migrated = self._sources.migrated_row_count()
        yield CounterMetricFamily("confab_migrated_rows", "Rows that this process migrated.", value=migrated)
        formats = self._sources.app.store.deployment.formats
        shared = {"process": formats.number, "oldest": formats.oldest or 0, "used": formats.minimum}
        yield _gauges("confab_shared_format", "Shared formats of servers.", "of", shared)
        info = GaugeMetricFamily("confab_info", "Always 1.", labels=["version"])
        info.add_metric([version("confab")], 1)
        yield info

    def _collect_operations(self) -> Iterator[Metric]:
        meter = self._sources.operations
        ended = CounterMetricFamily(
            "confab_operations", "Operations that ended, by first error code.", labels=["field", "kind", "code"]
        )
        for (root, kind, code), count in meter.ended.items():
            ended.add_metric([root, kind, code], count)
        yield ended
        seconds = HistogramMetricFamily(
            "confab_operation_seconds",
            "Duration of operations; of subscriptions until they receive events.",
            labels=["field", "kind"],
        )
        for (root, kind), histogram in meter.seconds.items():
            seconds.add_metric([root, kind], buckets_of(histogram), histogram.total)
        yield seconds

    def _collect_load(self) -> Iterator[Metric]:
        load_shedding = self._sources.load_shedding
        yield _gauge("confab_operations_under_way", "Running operations.", load_shedding.running)
        yield _gauge("confab_operations_limit", "Operations that may run at the moment.", load_shedding.limit)
        refused = load_shedding.refused
        shed = {"operation": refused.operations, "connection": refused.connections}
        yield _counters("confab_shed", "Refused because the process is overloaded.", "what", shed)
        yield _histogram("confab_loop_late_seconds", "Delay of the event loop.", self._sources.loop_delay)

    def _collect_writes(self) -> Iterator[Metric]:
        app = self._sources.app
        commits = app.store.commits
        yield _histogram("confab_commit_messages", "Messages per group commit.", commits.sizes)
        yield _histogram("confab_commit_seconds", "Duration of group commits.", commits.seconds)
        depths = dict(zip(("commit", "fanout", "large_group", "all"), app.delivery.queue_depths, strict=True))
        yield _gauges("confab_messages_waiting", "In-flight messages by the stage they wait for.", "stage", depths)
        left = {"bus": app.bus.pending_sends, "receipts": app.receipts.pending_receipts}
        yield _gauges("confab_after_answer", "Work left over from answered operations.", "of", left)
        if self._age_ms is not None:
            yield _gauge(
                "confab_outbox_age_seconds",
                "Age of the oldest undelivered message of the deployment.",
                self._age_ms / 1000,
            )

    def _collect_databases(self) -> Iterator[Metric]:
        store = self._sources.app.store
        trips = {
            "mongodb": store.mongo.trips,
            "mongodb_aside": store.mongo.background_trips,
            "redis": store.cache.trips,
            "redis_aside": store.cache.background_trips,
        }
        yield _counters("confab_round_trips", "Round trips. aside: no request waited for them.", "database", trips)
        failed = {database: failures[database] for database in ("mongodb", "redis", "s3")}
        yield _counters("confab_database_failures", "Failed calls.", "database", failed)
        yield _gauge("confab_redis_waiting", "Callers whose commands are not sent yet.", store.cache.queued)
        counters: dict[str, HitCounter] = {
            "state": store.sessions.lookups,
            "head": store.conversations.heads,
            "group": store.conversations.groups,
        }
        cache = CounterMetricFamily("confab_cache", "Lookups of cached state in Redis.", labels=["of", "outcome"])
        for name, counter in counters.items():
            cache.add_metric([name, "hit"], counter.hits)
            cache.add_metric([name, "miss"], counter.misses)
        yield cache

    def _collect_connections(self) -> Iterator[Metric]:
        hub, shared = self._sources.app.hub, self._sources.app.shared_events.hub
        counts = {"websocket": self._sources.websocket_count(), "event_stream": self._sources.stream_count()}
        yield _gauges("confab_connections", "Open connections.", "of", counts)
        yield _gauge("confab_subscriptions", "Open subscriptions.", hub.mailboxes + shared.mailboxes)
        yield CounterMetricFamily(
            "confab_resets", "Times that a client was sent reset.", value=hub.resets + shared.resets
        )


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _gauges(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _fill(GaugeMetricFamily(name, help_text, labels=[label]), values)


def _counters(name: str, help_text: str, label: str, values: Mapping[str, float]) -> Metric:
    return _fill(CounterMetricFamily(name, help_text, labels=[label]), values)


def _fill(family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[str, float]) -> Metric:
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _histogram(name: str, help_text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(name, help_text, buckets=buckets_of(histogram), sum_value=histogram.total)
