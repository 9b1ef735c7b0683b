"""A page of history, and reading its messages."""

from __future__ import annotations

import asyncio
from functools import partial

from bench.suite.data import forget, insert_talks
from bench.suite.figures import Figures, Topic
from bench.suite.queries import HISTORY, READ, SESSIONS
from bench.suite.stage import CONFAB, FLOOR, Contestant, Stage
from bench.suite.turns import Plan, Turns, body
from store.base.ids import UserId, private_id

MESSAGES = 500

TOPICS = (
    Topic("history", "The newest 50 messages", note="of 500 in a private conversation; 6 in flight"),
    Topic(
        "history-cold",
        "The same, conversation and reader not in Redis",
        note="one at a time; the baseline never has anything in Redis; MongoDB has it in memory",
    ),
    Topic("read", "markRead of 500 messages", note="each by another reader, once, 6 at a time; times: alone"),
)

_READERS = 48
_CLIENTS = 6
_COLD = 8


def _pairs() -> list[tuple[str, str]]:
    return [(f"writer{number:02}", f"reader{number:02}") for number in range(_READERS)]


def _talk(pair: tuple[str, str]) -> str:
    return str(private_id(*(UserId(user) for user in pair)))


def people(_stage: Stage) -> list[str]:
    return [user for pair in _pairs() for user in pair]


async def run(stage: Stage) -> list[Figures]:
    await asyncio.to_thread(insert_talks, stage, _pairs(), MESSAGES)
    turns, pages = Turns(stage), [body(HISTORY, id=_talk(pair), last=50) for pair in _pairs()]
    plans = [await _plan(stage, one, 0, _CLIENTS, pages, _CLIENTS) for one in stage]
    found = await turns.measure("history", plans)
    cold = [await _plan(stage, one, 0, _COLD, pages, 1) for one in stage if one.name != FLOOR]
    found += await turns.alone("history-cold", [(plan, partial(_forget, stage, plan.contestant)) for plan in cold])
    return found + [await _read(stage, contestant) for contestant in stage]


async def _plan(
    stage: Stage, contestant: Contestant, first: int, count: int, bodies: list[str], in_flight: int
) -> Plan:
    """Return the plan of some readers, with a connection and requests each."""
    name = f"{contestant.name} readers from {first}"
    tokens = [contestant.token(reader) for _, reader in _pairs()[first : first + count]]
    await stage.load.ask("connect", name=name, port=contestant.server.port, transport="http", tokens=tokens)
    return Plan(contestant, name, [[text] for text in bodies[first : first + count]], in_flight)


async def _forget(stage: Stage, contestant: Contestant) -> None:
    if contestant.name == CONFAB:
        pairs = _pairs()[:_COLD]
        await asyncio.to_thread(forget, stage, [reader for _, reader in pairs], [_talk(pair) for pair in pairs])


async def _read(stage: Stage, contestant: Contestant) -> Figures:
    """Measure half of the readers concurrently, for CPU and rate; the others one after the other, for the times."""
    turns, bodies = Turns(stage), [body(READ, id=_talk(pair)) for pair in _pairs()]
    warm = await _plan(stage, contestant, 0, _READERS, [body(SESSIONS, first=50)] * _READERS, _CLIENTS)
    await turns.drive(warm, how="once")
    half = _READERS // 2
    together = await turns.drive(await _plan(stage, contestant, 0, half, bodies, _CLIENTS), how="once")
    alone = await turns.drive(await _plan(stage, contestant, half, half, bodies, 1), how="once")
    rate = together.asked["count"] / together.asked["elapsed"]
    return turns.told("read", warm, [together], alone, rate=rate)
