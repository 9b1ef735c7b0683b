"""A message without other load: the time until its answer, compared with the minimum."""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict
from typing import Any

from bench.suite.figures import Figures, Topic
from bench.suite.scenarios.private import bodies, connect, listen, people
from bench.suite.stage import CONFAB, Stage
from bench.suite.turns import Plan, Turn, Turns, figures_of, say

__all__ = ["BARE", "TOPICS", "people", "run"]

TOPICS = (
    Topic(
        "lone",
        "A lone message at rest",
        note="sent every few tens of ms over HTTP, in turns; bare: an insert with majority and journal and "
        "two round trips to Redis by the drivers, without a server",
    ),
)

BARE = "bare drivers"
_APART_SECONDS = 0.03
_WARM_UP = 5


async def run(stage: Stage) -> list[Figures]:
    turns, load = Turns(stage), stage.load
    plans = []
    for contestant in stage:
        clients = await connect(stage, contestant, "http", 1)
        plans.append(Plan(contestant, clients, bodies()[:1], 1, await listen(stage, contestant)))
    told: dict[str, list[Turn]] = defaultdict(list)
    bare: list[dict[str, Any]] = []
    for number in range(_WARM_UP + stage.profile.lone):
        turn = {}
        for plan in plans:
            # No duration: each drive is one message.
            turn[plan.contestant.name] = await turns.drive(plan, how="closed")
            await asyncio.sleep(_APART_SECONDS)
        least = await load.ask("bare", mongo_url=stage.databases.mongo_url, redis_url=stage.databases.redis_url)
        await asyncio.sleep(_APART_SECONDS)
        if number >= _WARM_UP:
            bare.append(least)
            for name, one in turn.items():
                told[name].append(one)
    found = [_lone(told[plan.contestant.name], plan) for plan in plans]
    found.append(_bare(bare))
    for plan in plans:
        await load.ask("disconnect", name=plan.clients)
        await load.ask("close", name=plan.listeners)
    for figures in found:
        say(figures)
    by_name = {figures.contestant: figures for figures in found}
    if CONFAB in by_name:
        ratio = (by_name[CONFAB].p50 or 0.0) / (by_name[BARE].p50 or 1.0)
        print(f"  lone: Confab's answer takes {ratio:.2f} times as long as the bare drivers", flush=True)
    return found


def _lone(turns: list[Turn], plan: Plan) -> Figures:
    figures = figures_of("lone", plan, turns, turns[-1], rate=None, size=None)
    figures.p50, figures.p95, figures.p99 = _quantiles([turn.asked["p50"] for turn in turns])
    heard = [turn.heard["p50"] for turn in turns if turn.heard]
    figures.delivered_p50, _, figures.delivered_p99 = _quantiles(heard)
    return figures


def _bare(times: list[dict[str, Any]]) -> Figures:
    p50, p95, p99 = _quantiles([one["seconds"] for one in times])
    insert = statistics.median(one["insert"] for one in times)
    return Figures("lone", BARE, p50=p50, p95=p95, p99=p99, count=len(times), more={"insert_p50": insert})


def _quantiles(values: list[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(values, n=100)
    return statistics.median(values), cuts[94], cuts[98]
