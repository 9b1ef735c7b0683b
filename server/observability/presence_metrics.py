"""Metrics of presence: the users that a process shows, and the frames that it sends about others."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from resolvers.base.app import Confab


def collect_presence(app: Confab) -> Iterator[Metric]:
    """Yield the metrics of presence."""
    yield GaugeMetricFamily(
        "confab_presence_watched",
        "Users whose presence connections of this process show.",
        value=app.presence.watched,
    )
    yield CounterMetricFamily(
        "confab_presence_frames",
        "Frames with changed presence that this process sent to other servers.",
        value=app.presence.publisher.frames,
    )
