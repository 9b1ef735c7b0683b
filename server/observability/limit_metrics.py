"""Metrics of the limits that protect a process: what waits for them, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resolvers.base.app import Confab
from schema.execution.event_slots import EventSlots
from server.overload.operation_queue import OperationQueue
from server.overload.queued_operations import QueuedOperations
from subscriptions.realtime.unsent_answers import UnsentAnswers


@dataclass(frozen=True, slots=True)
class LimitSources:
    """Sources of the metrics of limits."""

    app: Confab
    operations: OperationQueue
    events: EventSlots
    stream_operations: QueuedOperations
    unsent: UnsentAnswers
    dropped_connections: Callable[[], Mapping[str, int]]
    """Returns the connections that were dropped, by reason."""
    websocket_closes: Mapping[int, int]
    """WebSockets that the server closed, by close code."""
    refused_tokens: Callable[[], int]


def collect_limits(sources: LimitSources) -> Iterator[Metric]:
    """Yield the metrics of all limits."""
    yield from _collect_waiting(sources)
    yield from _collect_refusals(sources)
    ids, clock = sources.app.store.ids, sources.app.store.clock
    yield GaugeMetricFamily(
        "confab_worker_lease_remaining_seconds",
        "Remaining time of the lease of the worker number, without which no ids of messages can be made.",
        value=max(0, ids.valid_until_ms - clock.now_ms()) / 1000,
    )


def _collect_waiting(sources: LimitSources) -> Iterator[Metric]:
    operations, events, catch_ups = sources.operations, sources.events, sources.app.catch_ups
    yield GaugeMetricFamily("confab_users_under_way", "Users with running operations.", value=operations.active_users)
    waiting = GaugeMetricFamily("confab_waiting", "Work that waits because of limits by user.", labels=["of"])
    waiting.add_metric(["operations"], operations.waiting)
    waiting.add_metric(["events"], events.waiting)
    waiting.add_metric(["catch_ups"], catch_ups.waiting)
    waiting.add_metric(["stream_operations"], sources.stream_operations.count)
    yield waiting
    running = GaugeMetricFamily("confab_executions", "Executions of events, and parts of catch-ups.", labels=["of"])
    running.add_metric(["events"], events.running)
    running.add_metric(["catch_ups"], catch_ups.held)
    yield running
    held = GaugeMetricFamily("confab_waiting_bytes", "Bytes of answers and of waiting operations.", labels=["of"])
    held.add_metric(["unread_answers"], sources.unsent.total)
    held.add_metric(["stream_operations"], sources.stream_operations.size)
    yield held


def _collect_refusals(sources: LimitSources) -> Iterator[Metric]:
    limited = CounterMetricFamily("confab_limited", "Refused or dropped because of limits by user.", labels=["limit"])
    limited.add_metric(["work_budget"], sources.app.work.refused)
    limited.add_metric(["operations"], sources.operations.refused)
    limited.add_metric(["events"], sources.events.dropped)
    limited.add_metric(["catch_ups"], sources.app.catch_ups.refused)
    limited.add_metric(["stream_operations"], sources.stream_operations.refused)
    limited.add_metric(["unread_answers"], sources.unsent.refused)
    yield limited
    dropped = CounterMetricFamily("confab_connections_dropped", "Connections that were dropped.", labels=["reason"])
    for reason, count in sources.dropped_connections().items():
        dropped.add_metric([reason], count)
    yield dropped
    closes = CounterMetricFamily("confab_websocket_closes", "WebSockets that the server closed.", labels=["code"])
    for code, count in sources.websocket_closes.items():
        closes.add_metric([str(code)], count)
    yield closes
    yield CounterMetricFamily("confab_tokens_refused", "Tokens that were refused.", value=sources.refused_tokens())
