"""Connections with a subscription: the cost of opening them, and of idle ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from bench.memory import memory
from bench.suite.figures import Figures, Topic
from bench.suite.queries import MESSAGE_EVENTS
from bench.suite.stage import Contestant, CostSample, Stage
from bench.suite.turns import say

_GROWS_WITH = "connections"

TOPICS = (
    Topic("opening-rest", "Opening a connection with its subscription, at rest", note="one at a time"),
    Topic("opening", "Opening a connection with its subscription", _GROWS_WITH, "each of another user; 20 at a time"),
    Topic(
        "idle", "An idle connection with its subscription", _GROWS_WITH, "CPU: per connection and second, with pings"
    ),
)

_AT_ONCE = 20
_WARM_UP, _LONE = 20, 60
_SETTLE_SECONDS = 3.0


def _users(count: int) -> list[str]:
    return [f"c{number:05}" for number in range(count + _WARM_UP + _LONE)]


def people(stage: Stage) -> list[str]:
    return _users(max(stage.profile.connections))


async def run(stage: Stage) -> list[Figures]:
    found: list[Figures] = []
    for size in stage.profile.connections:
        for contestant in stage:
            found += await _run_one(stage, contestant, size)
    return found


async def _run_one(stage: Stage, contestant: Contestant, count: int) -> list[Figures]:
    users = _users(count)
    warm_up, lone, users = users[:_WARM_UP], users[_WARM_UP : _WARM_UP + _LONE], users[_WARM_UP + _LONE :]
    await _listen(stage, contestant, warm_up, _AT_ONCE)
    await _close(stage, contestant)
    alone = _opening("opening-rest", contestant, None, *await _listen(stage, contestant, lone, 1))
    await _close(stage, contestant)
    base, redis_base = memory(contestant.server.pid), _redis_memory(stage)
    opening = _opening("opening", contestant, count, *await _listen(stage, contestant, users, _AT_ONCE))
    await stage.wait_until_idle(contestant, most=_SETTLE_SECONDS)
    now = memory(contestant.server.pid)
    _, rest = await stage.spent(contestant, lambda: asyncio.sleep(stage.profile.rest_seconds))
    idle = Figures(
        "idle",
        contestant.name,
        count,
        cpu={process: used / rest.elapsed / count for process, used in rest.cpu.items()},
        count=count,
        more={
            "server_bytes": (now.rss - base.rss) / count,
            "redis_bytes": (_redis_memory(stage) - redis_base) / count,
        },
    )
    await _close(stage, contestant)
    say(idle)
    kibibytes = {process: size / 1024 for process, size in idle.more.items()}
    print(f"  {contestant.name}: {', '.join(f'{name} {value:.1f} KiB' for name, value in kibibytes.items())}")
    return [alone, opening, idle]


def _opening(
    scenario: str, contestant: Contestant, size: int | None, answer: dict[str, float], spent: CostSample
) -> Figures:
    figures = Figures(
        scenario,
        contestant.name,
        size,
        rate=answer["count"] / answer["elapsed"],
        p50=answer["p50"],
        p95=answer["p95"],
        p99=answer["p99"],
        cpu={process: used / answer["count"] for process, used in spent.cpu.items()},
        count=int(answer["count"]),
    )
    say(figures)
    return figures


async def _listen(
    stage: Stage, contestant: Contestant, users: list[str], at_once: int
) -> tuple[dict[str, float], CostSample]:
    """Open the connections of users. Return their times and cost."""
    tokens = [contestant.token(user) for user in users]

    def listen() -> Awaitable[dict[str, float]]:
        return stage.listen(contestant, contestant.name, tokens, [MESSAGE_EVENTS], in_flight=at_once)

    return await stage.spent(contestant, listen)


async def _close(stage: Stage, contestant: Contestant) -> None:
    closed = (await stage.load.ask("report", name=contestant.name))["closed"]
    if closed:
        raise RuntimeError(f"{contestant.name} closed connections: {closed}")
    await stage.load.ask("close", name=contestant.name)
    await stage.wait_until_idle(contestant, most=_SETTLE_SECONDS)


def _redis_memory(stage: Stage) -> int:
    assert stage.databases.redis_pid is not None
    return memory(stage.databases.redis_pid).rss
