"""Metrics of files and link previews: traffic, refusals, inspections, removals and fetched links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from resolvers.base.app import Confab
from server.files.routes import FileEndpoints
from subscriptions.delivery.files.file_sweeper import FileSweeper

_KINDS = ("inspect", "scale")
_INSPECTION_OUTCOMES = ("ok", "rejected", "unavailable")
_LINK_OUTCOMES = ("found", "none", "refused", "failed", "postponed")


@dataclass(frozen=True)
class FileMetrics(Collector):
    """Collects the metrics of files and link previews of a process."""

    app: Confab
    endpoints: FileEndpoints
    sweeper: FileSweeper
    fetched_links: Mapping[str, int]
    """Links whose previews were fetched, by outcome."""

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield from _collect_traffic(self.endpoints)
        yield from _collect_work(self)
        yield from _collect_links(self)


def _collect_links(sources: FileMetrics) -> Iterator[Metric]:
    links = CounterMetricFamily("confab_link_previews", "Links that were fetched, by outcome.", labels=["outcome"])
    for outcome in _LINK_OUTCOMES:
        links.add_metric([outcome], sources.fetched_links.get(outcome, 0))
    yield links
    yield GaugeMetricFamily(
        "confab_link_previews_waiting",
        "Messages whose links are being fetched or wait for that.",
        value=sources.app.previews.waiting,
    )


def _collect_traffic(endpoints: FileEndpoints) -> Iterator[Metric]:
    uploads, downloads = endpoints.uploads, endpoints.downloads
    yield _by_status("confab_uploads", "Answers to uploads, by status.", uploads.statuses.items())
    yield CounterMetricFamily(
        "confab_uploads_interrupted", "Uploads whose client disconnected.", value=uploads.interrupted
    )
    yield _by_status("confab_downloads", "Answers to requests for files and pictures.", downloads.statuses.items())
    limited = CounterMetricFamily(
        "confab_downloads_limited", "Downloads that were refused or dropped, by outcome.", labels=["outcome"]
    )
    limited.add_metric(["refused"], downloads.refused)
    limited.add_metric(["dropped"], downloads.dropped)
    yield limited
    yield GaugeMetricFamily("confab_downloads_running", "Running downloads.", value=downloads.running)
    size = CounterMetricFamily("confab_file_bytes", "Bytes of files.", labels=["direction"])
    size.add_metric(["received"], uploads.bytes_received)
    size.add_metric(["sent"], downloads.bytes_sent)
    yield size


def _collect_work(sources: FileMetrics) -> Iterator[Metric]:
    inspections = CounterMetricFamily(
        "confab_inspections", "Files and pictures that were decoded.", labels=["kind", "outcome"]
    )
    for kind in _KINDS:
        for outcome in _INSPECTION_OUTCOMES:
            inspections.add_metric([kind, outcome], sources.app.inspector.outcomes[kind, outcome])
    yield inspections
    yield CounterMetricFamily(
        "confab_thumbnails", "Thumbnails that were made.", value=sources.endpoints.thumbnails.made
    )
    swept = CounterMetricFamily("confab_files_swept", "Files that were removed or tidied.", labels=["outcome"])
    swept.add_metric(["removed"], sources.sweeper.removed)
    swept.add_metric(["tidied"], sources.sweeper.tidied)
    yield swept


def _by_status(name: str, help_text: str, counts: Iterable[tuple[int, int]]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=["status"])
    for status, count in counts:
        family.add_metric([str(status)], count)
    return family
