"""Metrics of workspaces: changes of rights, events on their clocks, and subscriptions to them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from resolvers.base.app import Confab
from server.observability.buckets import buckets_of


def collect_workspaces(app: Confab) -> Iterator[Metric]:
    """Yield the metrics of workspaces."""
    changes, shared = app.store.policy_changes, app.shared_events
    seconds = changes.meter.seconds
    yield HistogramMetricFamily(
        "confab_policy_change_seconds",
        "Duration of changes of rights, until no server uses the earlier rights.",
        buckets=buckets_of(seconds),
        sum_value=seconds.total,
    )
    yield CounterMetricFamily(
        "confab_policy_changes_failed", "Changes of rights that a database or a server did not answer.",
        value=changes.meter.failed,
    )  # fmt: skip
    yield GaugeMetricFamily(
        "confab_policy_changes_incomplete",
        "Workspaces with changes of rights that are stored, and not yet used on all servers.",
        value=changes.incomplete_workspaces,
    )
    events = CounterMetricFamily("confab_clock_events", "Events on the clocks of workspaces.", labels=["kind"])
    for kind, count in shared.counters.published.items():
        events.add_metric([kind], count)
    yield events
    resumes = CounterMetricFamily(
        "confab_clock_resumes", "Positions that subscriptions asked to resume from.", labels=["outcome"]
    )
    resumes.add_metric(["resumed"], shared.counters.resumed)
    resumes.add_metric(["reset"], shared.counters.reset)
    yield resumes
    watched = GaugeMetricFamily("confab_clock_subscriptions", "Subscriptions by the clock they read.", labels=["of"])
    watched.add_metric(["users"], app.hub.mailboxes)
    watched.add_metric(["workspaces"], shared.hub.mailboxes)
    yield watched
    yield GaugeMetricFamily(
        "confab_workspaces_watched", "Workspaces that connections of this process look at.", value=shared.watched
    )
