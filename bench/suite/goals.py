"""The goals, and the results for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.suite.figures import Figures
from bench.suite.scenarios.lone import BARE
from bench.suite.stage import BASELINE, CONFAB

Value = Callable[[Figures], float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of Confab and its maximum."""

    title: str
    scenario: str
    most: float
    unit: str
    value: Value
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """A goal with its measured value."""

    goal: Goal
    value: float
    baseline: float | None


def _cpu_ms(figures: Figures) -> float:
    return 1000 * figures.cpu_all / figures.per


GOALS = (
    Goal("private message over HTTP, total CPU", "private-http", 1.5, "ms", _cpu_ms),
    Goal("private message over the WebSocket, total CPU", "private-ws", 0.7, "ms", _cpu_ms),
    Goal("group of 200, all online, CPU a delivery", "group-online", 40, "µs", lambda one: 1000 * _cpu_ms(one), 200),
    Goal("first page of 50 sessions of 7,000, CPU", "sessions", 3, "ms", _cpu_ms, 7_000),
    Goal("sync after 3 changes, 7,000 sessions, CPU", "sync", 1.5, "ms", _cpu_ms, 7_000),
    Goal("page of 50 messages, CPU", "history", 4, "ms", _cpu_ms),
    Goal("idle connection with its subscription", "idle", 30, "KB", lambda one: one.more["server_bytes"] / 1000),
)
LONE = Goal("lone message, answer against bare drivers", "lone", 1.5, "times", lambda one: one.p50 or 0.0)


def reached(figures: Sequence[Figures]) -> list[Reached]:
    """Return the goals that were measured."""
    found = []
    for goal in GOALS:
        value = _of(figures, goal, CONFAB)
        if value is not None:
            found.append(Reached(goal, value, _of(figures, goal, BASELINE)))
    lone, bare = _of(figures, LONE, CONFAB), _of(figures, LONE, BARE)
    if lone is not None and bare:
        baseline = _of(figures, LONE, BASELINE)
        found.append(Reached(LONE, lone / bare, baseline / bare if baseline else None))
    return found


def _of(figures: Sequence[Figures], goal: Goal, contestant: str) -> float | None:
    for one in figures:
        if (one.scenario, one.contestant, one.size) == (goal.scenario, contestant, goal.size):
            return goal.value(one)
    return None


def rows_of(goals: Sequence[Reached]) -> list[tuple[str, ...]]:
    """Return a table, its head first."""
    rows: list[tuple[str, ...]] = [("", "goal, at most", "measured", "the baseline")]
    for one in goals:
        goal, baseline = one.goal, "" if one.baseline is None else _told(one.baseline, one.goal.unit)
        rows.append((goal.title, _told(goal.most, goal.unit), _told(one.value, goal.unit), baseline))
    return rows


def _told(value: float, unit: str) -> str:
    return f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
