"""An operation, measured on all servers in turns."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.suite.figures import PROCESSES, Figures
from bench.suite.request_rates import quantile
from bench.suite.stage import CALM_SECONDS, EJABBERD, FLOOR, NODE, Contestant, CostSample, Stage

_WARM_UP_SECONDS = 0.4
_JUST_IN_TIME_SECONDS = 4.0
"""The warm-up of a server whose code is compiled while it runs."""

PAUSE_SECONDS = 0.02
"""After a lone request. The server and the databases have nothing to do meanwhile."""


def body(query: str, **variables: Any) -> str:
    """Return the body of a request."""
    return json.dumps({"query": query, "variables": variables}, separators=(",", ":"))


@dataclass
class Plan:
    """The requests for one server. clients: their name in the load process, with one list of `bodies` each."""

    contestant: Contestant
    clients: str
    bodies: Sequence[Sequence[str]]
    in_flight: int
    listeners: str = ""
    """The subscribers that receive each operation's event, if any."""
    deliveries: int = 1
    """The number of subscribers per operation."""
    per: int = 1
    """The divisor of an operation's CPU in the tables."""
    until_calm: bool = False
    """An operation causes work without an event: it counts too."""
    rows: int | None = None
    """Sessions and messages in every answer. Another number is a failure."""


@dataclass
class Turn:
    """One command to the load process."""

    asked: dict[str, Any]
    heard: dict[str, Any] | None
    spent: CostSample

    @property
    def cpu(self) -> dict[str, float]:
        return {name: used / max(1, self.asked["count"]) for name, used in self.spent.cpu.items()}


class Turns:
    """Runs plans, one after the other."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def measure(
        self, scenario: str, plans: Sequence[Plan], *, size: int | None = None, half: bool = True
    ) -> list[Figures]:
        """Measure at saturation, turn by turn; then once at half of that rate, if wanted."""
        profile = self._stage.profile
        saturated: dict[str, list[Turn]] = {plan.contestant.name: [] for plan in plans}
        for plan in plans:
            await self.drive(plan, how="closed", seconds=_WARM_UP_SECONDS)
        for _ in range(profile.rounds):
            for plan in plans:
                turn = await self.drive(plan, how="closed", seconds=profile.seconds)
                saturated[plan.contestant.name].append(turn)
        found = []
        for plan in plans:
            turns = saturated[plan.contestant.name]
            rate = statistics.median(turn.asked["count"] / turn.asked["elapsed"] for turn in turns)
            last = turns[-1]
            if half:
                last = await self.drive(plan, how="open", seconds=profile.half_seconds, rate=rate / 2)
            found.append(figures_of(scenario, plan, turns, last, rate=rate, size=size, timed=half))
            say(found[-1])
        return found

    async def at_rest(self, scenario: str, plans: Sequence[Plan], *, size: int | None = None) -> list[Figures]:
        """Measure one request at a time, with a pause after each, in turns."""
        profile = self._stage.profile
        turns: dict[str, list[Turn]] = {plan.contestant.name: [] for plan in plans}
        for plan in plans:
            await self.drive(plan, how="closed", seconds=_warm_up_seconds(plan))
        for _ in range(profile.lone_rounds):
            for plan in plans:
                turns[plan.contestant.name].append(await self.drive(plan, how="lone", count=profile.lone))
        check_same_answers(scenario, {name: of[-1].asked["sample"] for name, of in turns.items()})
        return _lone_figures(scenario, plans, turns, size)

    async def bursts(
        self, scenario: str, plans: Sequence[Plan], count: int, *, size: int | None = None
    ) -> list[Figures]:
        """Send some requests, each as soon as the last one is answered; repeat once all work is done."""
        turns: dict[str, list[Turn]] = {plan.contestant.name: [] for plan in plans}
        for _ in range(self._stage.profile.lone_rounds):
            for plan in plans:
                turns[plan.contestant.name].append(await self.drive(plan, how="burst", count=count))
        return _lone_figures(scenario, plans, turns, size)

    async def once_cold(
        self, scenario: str, plans: Sequence[tuple[Plan, Callable[[], Awaitable[object]]]], *, size: int | None = None
    ) -> list[Figures]:
        """Prepare, then let every client send once, one after the other; repeat for each round."""
        by_name: dict[str, list[Turn]] = {plan.contestant.name: [] for plan, _ in plans}
        for _ in range(self._stage.profile.rounds):
            for plan, before in plans:
                await before()
                by_name[plan.contestant.name].append(await self.drive(plan, how="once"))
        found = []
        for plan, _ in plans:
            turns = by_name[plan.contestant.name]
            found.append(figures_of(scenario, plan, turns, turns[-1], rate=None, size=size))
            say(found[-1])
        return found

    async def drive(self, plan: Plan, *, how: str, seconds: float = 0.0, rate: float = 0.0, count: int = 1) -> Turn:
        """Run one turn, until all work it causes is done."""
        load, stage = self._stage.load, self._stage

        async def act() -> dict[str, Any]:
            began = time.perf_counter()
            asked = await load.ask(
                "drive",
                name=plan.clients,
                bodies=plan.bodies,
                how=how,
                seconds=seconds,
                in_flight=plan.in_flight,
                rate=rate,
                count=count,
                pause_seconds=PAUSE_SECONDS,
                listeners=plan.listeners,
                deliveries=plan.deliveries,
                rows=plan.rows,
            )
            if asked["failures"]:
                raise RuntimeError(f"{plan.contestant.name} failed {asked['failures']} times: {asked['failure']}")
            if plan.listeners:
                await load.ask("wait", name=plan.listeners, count=asked["count"] * plan.deliveries)
                # An operation is not done until all subscribers have the event.
                asked["elapsed"] = time.perf_counter() - began
            if plan.until_calm:
                await stage.wait_until_idle(plan.contestant)
                if not plan.listeners:
                    asked["elapsed"] = time.perf_counter() - began - CALM_SECONDS
            return asked

        await load.ask("open", name=plan.clients)
        asked, spent = await stage.spent(plan.contestant, act)
        heard = await load.ask("report", name=plan.listeners) if plan.listeners else None
        return Turn(asked, heard, spent)


def _warm_up_seconds(plan: Plan) -> float:
    return _JUST_IN_TIME_SECONDS if plan.contestant.name == NODE else _WARM_UP_SECONDS


def check_same_answers(scenario: str, samples: dict[str, str]) -> None:
    """Raise RuntimeError unless all servers answer with the same fields and rows. The floor only has the same size."""
    outlines = {name: outline(json.loads(sample)) for name, sample in samples.items() if name not in (FLOOR, EJABBERD)}
    if len({json.dumps(one, sort_keys=True) for one in outlines.values()}) > 1:
        raise RuntimeError(f"{scenario}: the servers answer differently: {json.dumps(outlines)[:2000]}")


def outline(value: Any) -> Any:
    """Return the fields and the numbers of rows in an answer, without its values."""
    match value:
        case dict():
            return {name: outline(of) for name, of in value.items()}
        case list():
            return [outline(of) for of in value]
        case _:
            return None


def figures_of(
    scenario: str,
    plan: Plan,
    turns: Sequence[Turn],
    half: Turn,
    *,
    rate: float | None,
    size: int | None,
    timed: bool = True,
) -> Figures:
    """Return the medians of turns, and the times of the turn at half the rate. Without times if there was none."""
    heard, times = half.heard, half.asked if timed else {}
    commands = statistics.median(turn.spent.redis_commands / max(1, turn.asked["count"]) for turn in turns)
    return Figures(
        scenario,
        plan.contestant.name,
        size,
        rate=rate,
        p50=times.get("p50"),
        p95=times.get("p95"),
        p99=times.get("p99"),
        delivered_p50=heard["p50"] if heard and timed else None,
        delivered_p99=heard["p99"] if heard and timed else None,
        per=plan.per,
        cpu={name: statistics.median(turn.cpu[name] for turn in turns) for name in PROCESSES},
        size_bytes=half.asked["size"],
        count=sum(turn.asked["count"] for turn in turns),
        more={"redis_commands": commands / plan.per},
    )


def lone_figures_of(scenario: str, plan: Plan, turns: Sequence[Turn], size: int | None) -> Figures:
    """Return the medians of turns with lone requests, and quantiles of all their times."""
    figures = figures_of(scenario, plan, turns, turns[-1], rate=None, size=size)
    times = sorted(seconds for turn in turns for seconds in turn.asked["times"])
    figures.p50, figures.p95, figures.p99 = (quantile(times, share) for share in (0.5, 0.95, 0.99))
    if heard := [turn.heard for turn in turns if turn.heard]:
        figures.delivered_p50, figures.delivered_p99 = (
            statistics.median(one[name] for one in heard) for name in ("p50", "p99")
        )
    return figures


def say(figures: Figures) -> None:
    """Print a line of progress."""
    size = "" if figures.size is None else f" {figures.size:,}"
    rate = "" if figures.rate is None else f", {figures.rate:,.0f}/s"
    cpu = figures.cpu_all / figures.per
    print(f"  {figures.scenario}{size} {figures.contestant}: {1e6 * cpu:,.0f} us CPU{rate}", flush=True)


def _lone_figures(
    scenario: str, plans: Sequence[Plan], turns: Mapping[str, Sequence[Turn]], size: int | None
) -> list[Figures]:
    """Return the figures of each plan from its turns, and print them."""
    found = []
    for plan in plans:
        found.append(lone_figures_of(scenario, plan, turns[plan.contestant.name], size))
        say(found[-1])
    return found
