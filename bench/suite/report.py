"""The tables, and the JSON they are made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.suite import goals
from bench.suite.figures import PROCESSES, Figures, Topic
from bench.suite.plot import draw
from bench.suite.profiles import GROWTH
from bench.suite.run import Result
from bench.suite.scenarios import SCENARIOS
from bench.suite.stage import CONFAB

RESULTS, PLOT = "results.json", "results.svg"

Table = list[tuple[str, ...]]
Cell = Callable[[Figures, Sequence[Figures]], str]


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{1000 * value:,.1f}"


def _micros(figures: Figures, process: str | None = None) -> str:
    if not figures.cpu:
        return ""
    seconds = figures.cpu_all if process is None else figures.cpu[process]
    return _number(1e6 * seconds / figures.per)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def _ratio(figures: Figures, of_topic: Sequence[Figures]) -> str:
    same = [one for one in of_topic if one.contestant == CONFAB and one.size == figures.size]
    if not same or not figures.cpu_all or not same[0].cpu_all:
        return ""
    return f"{figures.cpu_all / same[0].cpu_all:.2f}"


def _kibibytes(figures: Figures, process: str) -> str:
    return f"{figures.more[f'{process}_bytes'] / 1024:.1f}" if f"{process}_bytes" in figures.more else ""


_COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("", lambda one, _: one.contestant if one.size is None else f"{one.size:,} {one.contestant}"),
    ("ops/s", lambda one, _: "" if one.rate is None else _number(one.rate)),
    ("p50 ms", lambda one, _: _milliseconds(one.p50)),
    ("p95", lambda one, _: _milliseconds(one.p95)),
    ("p99", lambda one, _: _milliseconds(one.p99)),
    ("heard p50", lambda one, _: _milliseconds(one.delivered_p50)),
    ("p99", lambda one, _: _milliseconds(one.delivered_p99)),
    ("CPU µs: server", lambda one, _: _micros(one, PROCESSES[0])),
    ("database", lambda one, _: _micros(one, PROCESSES[1])),
    ("Redis", lambda one, _: _micros(one, PROCESSES[2])),
    ("total", lambda one, _: _micros(one)),
    ("Redis commands", lambda one, _: f"{one.more['redis_commands']:.1f}" if "redis_commands" in one.more else ""),
    ("Confab = 1", _ratio),
    ("trips", lambda one, _: "" if one.trips is None else f"{one.trips[0]} + {one.trips[1]}"),
    ("bytes", lambda one, _: "" if one.size_bytes is None else f"{one.size_bytes:,.0f}"),
    ("KiB: server", lambda one, _: _kibibytes(one, "server")),
    ("KiB: Redis", lambda one, _: _kibibytes(one, "redis")),
)


def topics_of(result: Result) -> list[tuple[Topic, list[Figures]]]:
    """Return the measured topics, in the order of the scenarios."""
    topics = [topic for scenario in SCENARIOS.values() for topic in scenario.topics]
    found = [(topic, [one for one in result.figures if one.scenario == topic.key]) for topic in topics]
    return [(topic, figures) for topic, figures in found if figures]


def table_of(figures: Sequence[Figures]) -> Table:
    """Return lines of cells, the head first, without empty columns."""
    rows = [tuple(cell(one, figures) for _, cell in _COLUMNS) for one in figures]
    kept = [place for place in range(len(_COLUMNS)) if any(row[place] for row in rows)]
    head = tuple(name for name, _ in _COLUMNS)
    return [tuple(row[place] for place in kept) for row in (head, *rows)]


def growth_of(topic: Topic, figures: Sequence[Figures]) -> str:
    """Return the growth of CPU from the smallest to the largest size. Empty if it was not measured."""
    ratios = []
    for name in dict.fromkeys(one.contestant for one in figures):
        of_name = sorted((one for one in figures if one.contestant == name), key=lambda one: one.size or 0)
        least, most = of_name[0], of_name[-1]
        if topic.grows_with and least.size != most.size and least.cpu_all:
            factor = (most.cpu_all / most.per) / (least.cpu_all / least.per)
            ratios.append(f"{name} times {factor:.2f} from {least.size:,} to {most.size:,}")
    return f"CPU by {topic.grows_with}: {', '.join(ratios)}." if ratios else ""


def print_tables(result: Result) -> None:
    """Print everything for a terminal."""
    for topic, figures in topics_of(result):
        print(f"\n{topic.title}{f' ({topic.note})' if topic.note else ''}")
        _print(table_of(figures))
        if growth := growth_of(topic, figures):
            print(growth)
    if result.profile != GROWTH.name and (comparison := goals.comparison(result.figures)):
        print(f"\n{markdown(comparison)}")
    print(f"\n{result.profile}: {result.seconds:.0f} s")


def _print(rows: Table) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        (first, width), *rest = zip(row, widths, strict=True)
        print("  ".join([first.ljust(width), *(cell.rjust(width) for cell, width in rest)]))


def markdown(rows: Table) -> str:
    """Return a table in Markdown."""
    head, *rest = rows
    lines = [head, ("---", *("---:" for _ in head[1:])), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_results(result: Result, folder: Path) -> None:
    """Write JSON and plot."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULTS).write_text(json.dumps(_to_json(result), indent=1) + "\n")
    (folder / PLOT).write_text(draw(result.figures))
    print(f"written to {folder}")


def read_results(folder: Path) -> Result:
    """Read the results of the last run."""
    value = json.loads((folder / RESULTS).read_text())
    return Result(value["profile"], value["seconds"], [Figures.from_json(one) for one in value["figures"]])


def _to_json(result: Result) -> dict[str, Any]:
    return {
        "profile": result.profile,
        "seconds": round(result.seconds, 1),
        "figures": [figures.to_json() for figures in result.figures],
    }
