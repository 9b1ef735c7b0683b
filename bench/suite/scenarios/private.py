"""Private messages among 20 pairs, each delivered to a connected subscriber: at rest, and 20 in flight."""

from __future__ import annotations

import asyncio
import statistics

from bench.peers import ejabberd
from bench.suite.figures import Figures, Topic
from bench.suite.queries import MESSAGE_EVENTS, SEND
from bench.suite.request_rates import STAMP_PLACE
from bench.suite.stage import Contestant, Stage
from bench.suite.turns import PAUSE_SECONDS, Plan, Turns, body, say

LONE, BARE = "lone", "bare drivers"

TOPICS = (
    Topic(
        LONE,
        "Private message, at rest",
        note="over HTTP, one message at a time; bare: an insert with majority and journal and two round trips to Redis "
        "by the drivers, without a server",
    ),
    Topic(
        "private-http", "Private message, mutation over HTTP", note="20 pairs, 20 in flight, delivered to a subscriber"
    ),
    Topic("private-ws", "Private message, mutation over the WebSocket", note="the same"),
)

PAIRS = 20
TEXT = f"What one says to another, as long as such a line usually is, {STAMP_PLACE}"


def senders() -> list[str]:
    return [f"from{number:02}" for number in range(PAIRS)]


def receivers() -> list[str]:
    return [f"to{number:02}" for number in range(PAIRS)]


def people(_stage: Stage) -> list[str]:
    """Return the people who must exist."""
    return [*senders(), *receivers()]


async def listen(stage: Stage, contestant: Contestant) -> str:
    """Connect all receivers. Return their name in the load process."""
    name = f"{contestant.name} receivers"
    tokens = [contestant.token(user) for user in receivers()]
    await stage.listen(contestant, name, tokens, [MESSAGE_EVENTS])
    return name


async def connect(stage: Stage, contestant: Contestant, transport: str, count: int = PAIRS) -> str:
    """Connect the senders. Return their name in the load process."""
    name = f"{contestant.name} senders over {transport}"
    tokens = [contestant.token(user) for user in senders()[:count]]
    await stage.connect(contestant, name, tokens, transport)
    return name


def bodies(contestant: Contestant) -> list[list[str]]:
    """Return the requests of each sender."""
    if contestant.ejabberd is not None:
        return [[ejabberd.message(user, TEXT)] for user in receivers()]
    return [[body(SEND, input={"toUserId": user, "content": TEXT})] for user in receivers()]


async def run(stage: Stage) -> list[Figures]:
    found: list[Figures] = []
    listeners = {contestant.name: await listen(stage, contestant) for contestant in stage}
    turns = Turns(stage)
    for topic, transport in zip(TOPICS[1:], ("http", "ws"), strict=True):
        plans = [
            Plan(
                contestant,
                await connect(stage, contestant, transport),
                bodies(contestant),
                PAIRS,
                listeners[contestant.name],
                rows=1 if contestant.ejabberd is None else None,
            )
            for contestant in stage
            # XMPP has one transport only. It is compared with HTTP.
            if transport == "http" or contestant.ejabberd is None
        ]
        if transport == "http":
            found += [*await turns.at_rest(LONE, plans), await _bare(stage)]
        found += await turns.measure(topic.key, plans)
        for plan in plans:
            await stage.load.ask("disconnect", name=plan.clients)
    for name in listeners.values():
        await stage.load.ask("close", name=name)
    return found


async def _bare(stage: Stage) -> Figures:
    """Measure the waiting time of the bare drivers, from the load process."""
    databases, times = stage.databases, []
    for _ in range(stage.profile.lone_rounds * stage.profile.lone):
        times.append(await stage.load.ask("bare", mongo_url=databases.mongo_url, redis_url=databases.redis_url))
        await asyncio.sleep(PAUSE_SECONDS)
    cuts = statistics.quantiles([one["seconds"] for one in times], n=100)
    insert = statistics.median(one["insert"] for one in times)
    figures = Figures(LONE, BARE, p50=cuts[49], p95=cuts[94], p99=cuts[98], count=len(times), more={"insert": insert})
    say(figures)
    return figures
