"""Private messages while a large group is written to ten times a second, by the number of its connected members."""

from __future__ import annotations

import asyncio

from bench.load_process import LoadProcess
from bench.suite.figures import Figures, Topic
from bench.suite.queries import MESSAGE_EVENTS
from bench.suite.scenarios import groups, private
from bench.suite.stage import Contestant, Stage
from bench.suite.turns import Plan, Turns

SIZE = 5_000
_ONLINE = (200, 1_000)
_GROUP_RATE, _PRIVATE_RATE = 10.0, 40.0
_SECONDS = 12.0
_AHEAD_SECONDS = 2.0
"""The group's messages begin before the private ones, and end after them."""

TOPICS = (
    Topic(
        "busy",
        f"Private message while a group of {SIZE:,} gets {_GROUP_RATE:.0f} messages a second",
        "connected members of the group",
        f"{_PRIVATE_RATE:.0f} private messages a second over HTTP; 0: without the group's messages",
    ),
)


def people(stage: Stage) -> list[str]:
    return [*private.people(stage), *groups.members(SIZE)]


async def run(stage: Stage) -> list[Figures]:
    found: list[Figures] = []
    for contestant in (one for one in stage if one.ejabberd is None):
        plan = Plan(
            contestant,
            await private.connect(stage, contestant, "http"),
            private.bodies(contestant),
            private.PAIRS,
            await private.listen(stage, contestant),
        )
        group = await groups.plan_group(stage, contestant, SIZE)
        await Turns(stage).drive(plan, how="closed", seconds=_AHEAD_SECONDS)
        await stage.wait_until_idle(contestant)
        found.append(await _measure(stage, plan, None, 0))
        for online in _ONLINE:
            # A process of its own, so that receiving the group's messages does not delay the private ones.
            async with LoadProcess("bench.suite.load_worker") as load:
                await _connect(load, contestant, online)
                found.append(await _measure(stage, plan, (load, group.bodies[0]), online))
        await stage.load.ask("close", name=plan.listeners)
    return found


async def _connect(load: LoadProcess, contestant: Contestant, online: int) -> None:
    port, everybody = contestant.server.port, groups.members(SIZE)
    senders = [contestant.token(everybody[0])] * 4
    await load.ask("connect", name="senders", port=port, transport="http", tokens=senders)
    tokens = [contestant.token(user) for user in everybody[:online]]
    await load.ask("listen", name="members", port=port, tokens=tokens, subscriptions=[MESSAGE_EVENTS])


async def _measure(stage: Stage, plan: Plan, group: tuple[LoadProcess, list[str]] | None, online: int) -> Figures:
    tasks = [asyncio.create_task(_write(*group))] if group else []
    await asyncio.sleep(_AHEAD_SECONDS)
    await stage.load.ask("open", name=plan.clients)
    asked = await stage.load.ask(
        "drive", name=plan.clients, bodies=plan.bodies, how="open", seconds=_SECONDS, rate=_PRIVATE_RATE, rows=1
    )
    if asked["failures"]:
        raise RuntimeError(f"{plan.contestant.name} failed {asked['failures']} times: {asked['failure']}")
    await stage.load.ask("wait", name=plan.listeners, count=asked["count"])
    heard = await stage.load.ask("report", name=plan.listeners)
    more = {name: value for task in tasks for name, value in (await task).items()}
    figures = Figures(
        "busy",
        plan.contestant.name,
        online,
        rate=asked["count"] / asked["elapsed"],
        p50=asked["p50"],
        p95=asked["p95"],
        p99=asked["p99"],
        delivered_p50=heard["p50"],
        delivered_p99=heard["p99"],
        count=asked["count"],
        more=more,
    )
    print(f"  busy {online:,} {figures.contestant}: {_times(figures)}; the group's messages: {more}", flush=True)
    await stage.wait_until_idle(plan.contestant)
    return figures


async def _write(load: LoadProcess, bodies: list[str]) -> dict[str, float]:
    """Write to the group. Return the times of its messages, in seconds."""
    await load.ask("open", name="senders")
    seconds = _SECONDS + 2 * _AHEAD_SECONDS
    asked = await load.ask("drive", name="senders", bodies=[bodies] * 4, how="open", seconds=seconds, rate=_GROUP_RATE)
    heard = await load.ask("report", name="members")
    return {
        "group_p50": asked["p50"],
        "group_p99": asked["p99"],
        "group_heard_p50": heard["p50"],
        "group_heard_p99": heard["p99"],
    }


def _times(figures: Figures) -> str:
    p50, p99 = 1000 * (figures.p50 or 0.0), 1000 * (figures.p99 or 0.0)
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
