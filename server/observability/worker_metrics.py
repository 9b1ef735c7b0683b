"""Metrics of `confab work`, a process without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from resolvers.push.worker.push_worker import PushWorker
from resolvers.webhooks.outgoing.webhook_parts import WebhookParts
from server.observability.push_metrics import WaitingPushes, collect_pushes, measure_pushes
from server.observability.webhook_metrics import collect_webhooks
from store.base.errors import StoreError, failures
from store.store import Store

_TIMEOUT_SECONDS = 1.0


class WorkerMetrics(Collector):
    """The metrics of a worker, in Prometheus's text format. Their names are those of servers."""

    def __init__(self, store: Store, worker: PushWorker | None, webhooks: WebhookParts) -> None:
        self._store = store
        self._worker = worker
        self._webhooks = webhooks
        self._waiting: WaitingPushes | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        """Return the metrics. Never fails: metrics that cannot be read are omitted."""
        self._waiting = None
        if self._worker is not None:
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    self._waiting = await measure_pushes(self._store)
            except (StoreError, TimeoutError):
                pass
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield from collect_pushes(self._worker, self._waiting)
        yield from collect_webhooks(self._webhooks, self._store.clock.now_ms())
        failed = CounterMetricFamily("confab_database_failures", "Failed calls.", labels=["database"])
        for database in ("mongodb", "redis"):
            failed.add_metric([database], failures[database])
        yield failed
        info = GaugeMetricFamily("confab_info", "Always 1.", labels=["version"])
        info.add_metric([version("confab")], 1)
        yield info
