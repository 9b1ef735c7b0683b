"""The tables, and the JSON they are made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.suite.figures import PROCESSES, Figures
from bench.suite.run import Result
from bench.suite.scenarios import SCENARIOS
from bench.suite.stage import CONFAB

RESULTS = "results.json"

_HEAD = (
    "", "ops/s", "p50 ms", "p95 ms", "p99 ms", "heard p50", "CPU us: server", "MongoDB", "Redis", "all", "to Confab",
    "trips", "bytes",
)  # fmt: skip


def print_tables(result: Result) -> None:
    """All figures, by topic."""
    print(f"\n{result.profile}: {result.seconds:.0f} s")
    for topic in (topic for scenario in SCENARIOS.values() for topic in scenario.topics):
        of_topic = [figures for figures in result.figures if figures.scenario == topic.key]
        if not of_topic:
            continue
        print(f"\n{topic.title}{f' ({topic.note})' if topic.note else ''}")
        rows = [_HEAD, *(row_of(figures, of_topic) for figures in of_topic)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
        for row in rows:
            first, *rest = (cell for cell in zip(row, widths, strict=True))
            print("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]))


def row_of(figures: Figures, of_topic: list[Figures]) -> tuple[str, ...]:
    """A line of a table."""
    name = figures.contestant if figures.size is None else f"{figures.size:,} {figures.contestant}"
    cpu = [1e6 * figures.cpu[process] / figures.per for process in PROCESSES if process in figures.cpu]
    total = 1e6 * figures.cpu_all / figures.per
    return (
        name,
        "" if figures.rate is None else f"{figures.rate:,.0f}",
        *(milliseconds(value) for value in (figures.p50, figures.p95, figures.p99, figures.delivered_p50)),
        *([f"{value:,.0f}" for value in (*cpu, total)] if cpu else [""] * 4),
        ratio_to_confab(figures, of_topic),
        "" if figures.trips is None else f"{figures.trips[0]} + {figures.trips[1]}",
        "" if figures.size_bytes is None else f"{figures.size_bytes:,.0f}",
    )


def milliseconds(value: float | None) -> str:
    return "" if value is None else f"{1000 * value:,.1f}"


def ratio_to_confab(figures: Figures, of_topic: list[Figures]) -> str:
    """How many times Confab's CPU it takes."""
    same = [one for one in of_topic if one.contestant == CONFAB and one.size == figures.size]
    if not same or not figures.cpu_all or not same[0].cpu_all:
        return ""
    return f"{(figures.cpu_all / figures.per) / (same[0].cpu_all / same[0].per):.2f}"


def write_results(result: Result, folder: Path) -> None:
    """JSON and plot."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULTS).write_text(json.dumps(to_json(result), indent=1) + "\n")
    print(f"\nwritten to {folder}")


def to_json(result: Result) -> dict[str, Any]:
    return {
        "profile": result.profile,
        "seconds": round(result.seconds, 1),
        "figures": [figures.to_json() for figures in result.figures],
    }


def read_results(path: Path) -> Result:
    """As they were written."""
    value = json.loads(path.read_text())
    return Result(value["profile"], value["seconds"], list(_figures(value["figures"])))


def _figures(values: list[dict[str, Any]]) -> Iterator[Figures]:
    for value in values:
        yield Figures.from_json(value)
