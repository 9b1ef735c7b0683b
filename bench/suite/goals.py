"""The comparison: the operations that matter most, by server, with Confab's goal for each. A summary in ratios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.suite.figures import Figures
from bench.suite.stage import BASELINE, CONFAB, EJABBERD, NODE

Value = Callable[[Figures], float | None]

COLUMNS = {CONFAB: "Confab", NODE: "Node", EJABBERD: "ejabberd", BASELINE: "plain Python"}
NOT_THERE, NOT_MEASURED = "not there", "-"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of an operation, and the most that it should be for Confab."""

    title: str
    scenario: str
    most: float | None
    unit: str
    value: Value
    size: int | None = None
    summary: str | None = None
    """Title in the summary, which has some of the operations."""


def _cpu_ms(figures: Figures) -> float:
    return 1000 * figures.cpu_all / figures.per


def _cpu_micros(figures: Figures) -> float:
    return 1000 * _cpu_ms(figures)


def _p50_ms(figures: Figures) -> float | None:
    return None if figures.p50 is None else 1000 * figures.p50


def _kilobytes(figures: Figures) -> float:
    return figures.more["server_bytes"] / 1000


def _percent_of_a_core(figures: Figures) -> float:
    return 100 * figures.cpu_all * figures.count


GOALS = (
    Goal(
        "delivery in a group of 200, all online, one message at a time",
        "group-rest",
        60,
        "µs",
        _cpu_micros,
        200,
        "delivery in a group of 200",
    ),
    Goal("the same, in a burst", "group-burst", 40, "µs", _cpu_micros, 200),
    Goal(
        "first page of 50 of 1,000 sessions, one at a time",
        "sessions-rest",
        4,
        "ms",
        _cpu_ms,
        1_000,
        "first page of the list of conversations",
    ),
    Goal("the same, 6 in flight", "sessions", None, "ms", _cpu_ms, 1_000),
    Goal("newest 50 messages, one at a time", "history-rest", 3.5, "ms", _cpu_ms, None, "newest 50 messages"),
    Goal("the same, 6 in flight", "history", None, "ms", _cpu_ms),
    Goal(
        "opening a connection with its subscription, one at a time",
        "opening-rest",
        1.5,
        "ms",
        _cpu_ms,
        None,
        "opening a connection",
    ),
    Goal("the same, 20 at a time", "opening", 1.5, "ms", _cpu_ms, 1_000),
    Goal("1,000 idle connections, share of a core", "idle", 0.7, "%", _percent_of_a_core, 1_000, "an idle connection"),
    Goal("memory of an idle connection", "idle", 20, "KB", _kilobytes, 1_000, "an idle connection: memory"),
    Goal(
        "private message over HTTP, 20 in flight",
        "private-http",
        1.2,
        "ms",
        _cpu_ms,
        None,
        "private message, 20 in flight",
    ),
    Goal("the same over the WebSocket", "private-ws", None, "ms", _cpu_ms),
    Goal("private message, one at a time", "lone", 4.5, "ms", _cpu_ms, None, "private message, one at a time"),
    Goal("the same, time until the answer (p50)", "lone", 6, "ms", _p50_ms),
    Goal("sync after 3 changes, one at a time", "sync-rest", 2, "ms", _cpu_ms, 1_000, "synchronising after 3 changes"),
    Goal("markRead, one at a time", "read-rest", 3, "ms", _cpu_ms, None, "marking as read"),
    Goal(
        "first page of 7,000 sessions, not cached",
        "sessions-cold",
        40,
        "ms",
        _cpu_ms,
        7_000,
        "first page of 7,000 conversations, nothing in Redis",
    ),
)


def comparison(figures: Sequence[Figures]) -> list[tuple[str, ...]]:
    """Return the table of the measured operations, its head first. Empty if none was measured."""
    rows = []
    present = {one.contestant for one in figures}
    for goal in GOALS:
        values = {name: _of(figures, goal, name) for name in COLUMNS}
        confab = values[CONFAB]
        if confab is None:
            continue
        others = [value for name, value in values.items() if value is not None and name != CONFAB]
        cells = [_cell(value, goal.unit, name in present) for name, value in values.items()]
        rows.append(
            (
                goal.title,
                *cells,
                "" if goal.most is None else _shown(goal.most, goal.unit),
                "" if goal.most is None else f"{confab / goal.most:.2f}",
                f"{confab / min(others):.2f}" if others and min(others) > 0 else "",
            )
        )
    head = ("CPU of server and databases, unless another unit", *COLUMNS.values(), "goal", "of goal", "of best other")
    return [head, *rows] if rows else []


def summary(figures: Sequence[Figures]) -> list[tuple[str, ...]]:
    """Return a table of what some operations cost other servers, divided by what they cost Confab, its head first."""
    names = [name for name in COLUMNS if name != CONFAB]
    rows = [("CPU, unless another unit; Confab = 1", *(COLUMNS[name] for name in names))]
    present = {one.contestant for one in figures}
    for goal in GOALS:
        confab = _of(figures, goal, CONFAB)
        if goal.summary is None or not confab:
            continue
        values = [(_of(figures, goal, name), name in present) for name in names]
        missing = {True: NOT_MEASURED, False: NOT_THERE}
        cells = [missing[is_present] if value is None else _ratio(value / confab) for value, is_present in values]
        rows.append((goal.summary, *cells))
    return rows


def _ratio(value: float) -> str:
    return f"{value:#.2g}" if value < 9.95 else f"{value:,.0f}"


def _of(figures: Sequence[Figures], goal: Goal, contestant: str) -> float | None:
    for one in figures:
        if (one.scenario, one.contestant, one.size) == (goal.scenario, contestant, goal.size):
            return goal.value(one)
    return None


def _cell(value: float | None, unit: str, present: bool) -> str:
    if value is None:
        return NOT_MEASURED if present else NOT_THERE
    return _shown(value, unit)


def _shown(value: float, unit: str) -> str:
    return f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
