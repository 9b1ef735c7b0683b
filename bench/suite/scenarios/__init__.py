"""The scenarios by subject. A scenario is a module with TOPICS, `people` and `run`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from bench.suite.figures import Figures, Topic
from bench.suite.scenarios import busy, connections, groups, history, private, sessions
from bench.suite.stage import Stage


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parts of a scenario's module."""

    name: str
    topics: Sequence[Topic]
    people: Callable[[Stage], list[str]]
    run: Callable[[Stage], Awaitable[list[Figures]]]


def _scenario(module: ModuleType) -> Scenario:
    return Scenario(module.__name__.rpartition(".")[2], module.TOPICS, module.people, module.run)


SCENARIOS = {
    scenario.name: scenario for scenario in map(_scenario, (private, groups, sessions, history, connections, busy))
}
COMPARISON = ("private", "groups", "sessions", "history", "connections")
GROWTH = ("groups", "sessions", "connections", "busy")
"""Names of the scenarios of the two kinds of runs."""
