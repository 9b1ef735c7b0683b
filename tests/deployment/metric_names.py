"""Reads the names and labels of all metrics from the code that makes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.architecture.sources import modules, nodes

_SUFFIXES = {
    "CounterMetricFamily": ("_total",),
    "GaugeMetricFamily": ("",),
    "HistogramMetricFamily": ("_bucket", "_sum", "_count"),
    # Functions of server/observability/metrics.py and server/files/metrics.py.
    "_gauge": ("",),
    "_gauges": ("",),
    "_counters": ("_total",),
    "_histogram": ("_bucket", "_sum", "_count"),
    "_by_status": ("_total",),
}
PROCESS_METRICS = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
)
"""Metrics of prometheus_client's ProcessCollector that may be used."""


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _labels(maker: str, call: ast.Call) -> frozenset[str]:
    if maker == "_by_status":
        return frozenset({"status"})
    if maker in {"_gauges", "_counters"}:
        return frozenset(filter(None, [_text(call.args[2])]))
    for keyword in call.keywords:
        if keyword.arg == "labels" and isinstance(keyword.value, ast.List):
            return frozenset(filter(None, map(_text, keyword.value.elts)))
    return frozenset()


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for path in modules("server/observability", "server/files"):
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SUFFIXES:
                yield node.func.id, node


@cache
def labels_by_metric() -> dict[str, frozenset[str]]:
    """Return the labels of each time series that a process may have, by name."""
    found: dict[str, frozenset[str]] = dict.fromkeys(PROCESS_METRICS, frozenset())
    for maker, call in _calls():
        name = _text(call.args[0])
        if name is not None:
            labels = _labels(maker, call)
            for suffix in _SUFFIXES[maker]:
                found[name + suffix] = labels | ({"le"} if suffix == "_bucket" else frozenset())
    return found


@cache
def texts() -> frozenset[str]:
    """Return all texts in the code that makes metrics, which include the values of labels that it chooses."""
    found = (node for path in modules("server/observability", "server/files") for node in nodes(path))
    return frozenset(node.value for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str))
