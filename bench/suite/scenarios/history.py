"""A page of history, and reading its messages."""

from __future__ import annotations

import asyncio
from functools import partial

from bench.peers import ejabberd
from bench.suite.data import forget, insert_talks
from bench.suite.figures import Figures, Topic
from bench.suite.queries import HISTORY, READ, SESSIONS
from bench.suite.stage import CONFAB, FLOOR, Contestant, Stage
from bench.suite.turns import Plan, Turns, body, figures_of, lone_figures_of, say
from store.base.ids import UserId, private_id

MESSAGES = 500

TOPICS = (
    Topic(
        "history-rest",
        "The newest 50 messages, at rest",
        note="of 500 in a private conversation; one request at a time",
    ),
    Topic("history", "The newest 50 messages", note="the same; 6 in flight"),
    Topic(
        "history-cold",
        "The same, conversation and reader not in Redis",
        note="one at a time; the baseline never has anything in Redis; MongoDB has it in memory",
    ),
    Topic("read-rest", "markRead of 500 messages, at rest", note="each by another reader; one request at a time"),
    Topic("read", "markRead of 500 messages", note="each by another reader, once; 6 in flight"),
)

_READERS = 48
_CLIENTS = 6
_PAGE = 50
_COLD = 8


def _pairs() -> list[tuple[str, str]]:
    return [(f"writer{number:02}", f"reader{number:02}") for number in range(_READERS)]


def _talk(pair: tuple[str, str]) -> str:
    return str(private_id(*(UserId(user) for user in pair)))


def people(_stage: Stage) -> list[str]:
    return [user for pair in _pairs() for user in pair]


async def run(stage: Stage) -> list[Figures]:
    await asyncio.to_thread(insert_talks, stage, _pairs(), MESSAGES)
    turns, pages = Turns(stage), [body(HISTORY, id=_talk(pair), last=_PAGE) for pair in _pairs()]
    archived = [ejabberd.history(writer, _PAGE) for writer, _ in _pairs()]
    plans = [
        await _plan(stage, one, 0, _CLIENTS, pages if one.ejabberd is None else archived, _CLIENTS, rows=_PAGE)
        for one in stage
    ]
    found = await turns.at_rest("history-rest", plans)
    found += await turns.measure("history", plans)
    cold = [
        await _plan(stage, one, 0, _COLD, pages, 1, rows=_PAGE) for one in _with_sessions(stage) if one.name != FLOOR
    ]
    found += await turns.once_cold("history-cold", [(plan, partial(_forget, stage, plan.contestant)) for plan in cold])
    for contestant in _with_sessions(stage):
        found += await _read(stage, contestant)
    return found


def _with_sessions(stage: Stage) -> list[Contestant]:
    return [contestant for contestant in stage if contestant.ejabberd is None]


async def _plan(
    stage: Stage,
    contestant: Contestant,
    first: int,
    count: int,
    bodies: list[str],
    in_flight: int,
    rows: int | None = None,
) -> Plan:
    """Return the plan of some readers, with a connection and requests each."""
    name = f"{contestant.name} readers from {first}"
    tokens = [contestant.token(reader) for _, reader in _pairs()[first : first + count]]
    await stage.connect(contestant, name, tokens)
    return Plan(contestant, name, [[text] for text in bodies[first : first + count]], in_flight, rows=rows)


async def _forget(stage: Stage, contestant: Contestant) -> None:
    if contestant.name == CONFAB:
        pairs = _pairs()[:_COLD]
        await asyncio.to_thread(forget, stage, [reader for _, reader in pairs], [_talk(pair) for pair in pairs])


async def _read(stage: Stage, contestant: Contestant) -> list[Figures]:
    """Measure half of the readers one at a time, and the others 6 at a time: each can read only once."""
    turns, bodies = Turns(stage), [body(READ, id=_talk(pair)) for pair in _pairs()]
    warm = await _plan(stage, contestant, 0, _READERS, [body(SESSIONS, first=50)] * _READERS, _CLIENTS)
    await turns.drive(warm, how="once")
    half = _READERS // 2
    plan = await _plan(stage, contestant, 0, half, bodies, 1)
    found = [lone_figures_of("read-rest", plan, [await turns.drive(plan, how="lone", count=half)], None)]
    plan = await _plan(stage, contestant, half, half, bodies, _CLIENTS)
    together = await turns.drive(plan, how="once")
    rate = together.asked["count"] / together.asked["elapsed"]
    found.append(figures_of("read", plan, [together], together, rate=rate, size=None))
    for figures in found:
        say(figures)
    return found
