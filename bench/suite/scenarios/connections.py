"""Connections with a subscription: the cost of opening them, and of idle ones."""

from __future__ import annotations

import asyncio

from bench.memory import memory
from bench.suite.figures import Figures, Topic
from bench.suite.queries import MESSAGE_EVENTS
from bench.suite.stage import Contestant, Stage
from bench.suite.turns import say

TOPICS = (
    Topic(
        "opening", "Opening a connection with its subscription", note="2,000 connections of 2,000 users, 20 at a time"
    ),
    Topic("idle", "An idle connection with its subscription", note="CPU: per connection and second, pings included"),
)

_AT_ONCE = 20
_WARM_UP = 20
_SETTLE_SECONDS = 3.0


def _users(count: int) -> list[str]:
    return [f"c{number:05}" for number in range(count)]


def people(stage: Stage) -> list[str]:
    return _users(stage.profile.connections + _WARM_UP)


async def run(stage: Stage) -> list[Figures]:
    found: list[Figures] = []
    for contestant in stage:
        found += await _run_one(stage, contestant)
    return found


async def _run_one(stage: Stage, contestant: Contestant) -> list[Figures]:
    count, load = stage.profile.connections, stage.load
    users = _users(count + _WARM_UP)
    await _listen(stage, contestant, "first", users[count:])
    await load.ask("close", name="first")
    await asyncio.sleep(_SETTLE_SECONDS)
    base, redis_base = memory(contestant.server.pid), _redis_memory(stage)
    name = f"{contestant.name} connections"
    answer, spent = await stage.spent(contestant, lambda: _listen(stage, contestant, name, users[:count]))
    opening = Figures(
        "opening",
        contestant.name,
        rate=count / answer["elapsed"],
        p50=answer["p50"],
        p95=answer["p95"],
        p99=answer["p99"],
        cpu={process: used / count for process, used in spent.cpu.items()},
        count=count,
    )
    await stage.wait_until_idle(contestant, most=_SETTLE_SECONDS)
    now = memory(contestant.server.pid)
    _, rest = await stage.spent(contestant, lambda: asyncio.sleep(stage.profile.rest_seconds))
    idle = Figures(
        "idle",
        contestant.name,
        cpu={process: used / rest.elapsed / count for process, used in rest.cpu.items()},
        count=count,
        more={
            "server_bytes": (now.rss - base.rss) / count,
            "redis_bytes": (_redis_memory(stage) - redis_base) / count,
        },
    )
    await load.ask("close", name=name)
    await stage.wait_until_idle(contestant, most=_SETTLE_SECONDS)
    say(opening)
    say(idle)
    kibibytes = {process: size / 1024 for process, size in idle.more.items()}
    print(f"  {contestant.name}: {', '.join(f'{name} {value:.1f} KiB' for name, value in kibibytes.items())}")
    return [opening, idle]


async def _listen(stage: Stage, contestant: Contestant, name: str, users: list[str]) -> dict[str, float]:
    tokens = [contestant.token(user) for user in users]
    answer: dict[str, float] = await stage.load.ask(
        "listen",
        name=name,
        port=contestant.server.port,
        tokens=tokens,
        subscriptions=[MESSAGE_EVENTS],
        in_flight=_AT_ONCE,
    )
    return answer


def _redis_memory(stage: Stage) -> int:
    assert stage.databases.redis_pid is not None
    return memory(stage.databases.redis_pid).rss
