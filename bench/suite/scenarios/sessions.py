"""The session list: its first page, and changes since a cursor, by the number of the user's sessions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial

from bench.session_data import peer_name
from bench.suite.data import forget, insert_owners
from bench.suite.figures import Figures, Topic
from bench.suite.queries import SEND, SESSIONS, SYNC
from bench.suite.stage import CONFAB, FLOOR, Contestant, Stage
from bench.suite.turns import Plan, Turns, body

_GROWS_WITH = "sessions of the user"

TOPICS = (
    Topic(
        "sessions-rest",
        "First page of 50 sessions, at rest",
        _GROWS_WITH,
        "groups with their last message; one request at a time",
    ),
    Topic("sync-rest", "Incremental synchronisation after 3 changes, at rest", _GROWS_WITH, "one request at a time"),
    Topic("sessions", "First page of 50 sessions", _GROWS_WITH, "the same; 6 in flight"),
    Topic("sync", "Incremental synchronisation after 3 changes", _GROWS_WITH, "6 in flight"),
    Topic(
        "sessions-cold",
        "First page, the user's state not in Redis",
        _GROWS_WITH,
        "one at a time; the baseline never has anything in Redis",
    ),
)

_CLIENTS = 6
_PAGE, _CHANGES = 50, 3


def _owners(stage: Stage, size: int) -> list[str]:
    return [f"owner{size}x{number}" for number in range(stage.profile.owners)]


def people(stage: Stage) -> list[str]:
    sizes = stage.profile.sessions
    peers = [peer_name(number) for number in range(max(3, max(sizes) - max(sizes) // 2))]
    return [*peers, *(owner for size in sizes for owner in _owners(stage, size))]


async def run(stage: Stage) -> list[Figures]:
    found: list[Figures] = []
    for size in stage.profile.sessions:
        conversations = await asyncio.to_thread(insert_owners, stage, _owners(stage, size), size)
        found += await _Size(stage, size, conversations).run()
    return found


class _Size:
    """Users with a number of sessions."""

    def __init__(self, stage: Stage, size: int, conversations: dict[str, list[list[tuple[str, str]]]]) -> None:
        self._stage = stage
        self._size = size
        self._conversations = conversations
        self._owners = _owners(stage, size)
        self._pages = [body(SESSIONS, first=_PAGE)] * len(self._owners)
        self._contestants = [contestant for contestant in stage if contestant.ejabberd is None]
        self._turns = Turns(stage)

    async def run(self) -> list[Figures]:
        size = self._size
        plans = [await self._plan(one, self._pages, rows=_PAGE) for one in self._contestants]
        found = await self._turns.at_rest("sessions-rest", plans, size=size)
        found += await self._turns.measure("sessions", plans, size=size)
        plans = [await self._plan(one, await self._change(one), rows=_CHANGES) for one in self._contestants]
        found += await self._turns.at_rest("sync-rest", plans, size=size)
        found += await self._turns.measure("sync", plans, size=size)
        found += await self._cold()
        return found

    async def _plan(self, contestant: Contestant, bodies: list[str], clients: int = _CLIENTS, *, rows: int) -> Plan:
        """Return a plan with several connections per owner. bodies: by owner."""
        name = f"{contestant.name} owners {self._size}"
        owners = [self._owners[number % len(self._owners)] for number in range(clients)]
        tokens = [contestant.token(user) for user in owners]
        await self._stage.connect(contestant, name, tokens)
        asked = [[bodies[number % len(self._owners)]] for number in range(clients)]
        return Plan(contestant, name, asked, clients, rows=rows)

    async def _change(self, contestant: Contestant) -> list[str]:
        """Send messages to each owner after a cursor. Return the requests for the changes."""
        if contestant.name == FLOOR:
            return [body(SYNC, since="c")] * len(self._owners)
        asked, ask = [], partial(self._stage.ask, contestant)
        for owner, conversations in zip(self._owners, self._conversations[contestant.name], strict=True):
            since = (await ask(owner, SESSIONS, first=_PAGE))["cursor"]
            for conversation, sender in conversations[:_CHANGES]:
                await ask(sender, SEND, input={"conversationId": conversation, "content": "What is new"})
            await asyncio.sleep(0.1)
            delta = await ask(owner, SYNC, since=since)
            if len(delta["sessions"]) != _CHANGES:
                raise RuntimeError(f"{contestant.name}: not {_CHANGES} changes: {json.dumps(delta)[:500]}")
            asked.append(body(SYNC, since=since))
        return asked

    async def _cold(self) -> list[Figures]:
        plans: list[tuple[Plan, Callable[[], Awaitable[object]]]] = []
        for contestant in self._contestants:
            if contestant.name != FLOOR:
                plan = await self._plan(contestant, self._pages, len(self._owners), rows=_PAGE)
                plan.in_flight = 1
                forgets = contestant.name == CONFAB
                plans.append((plan, partial(self._forget) if forgets else partial(asyncio.sleep, 0)))
        return await self._turns.once_cold("sessions-cold", plans, size=self._size)

    async def _forget(self) -> None:
        await asyncio.to_thread(forget, self._stage, self._owners)
