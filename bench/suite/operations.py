"""Operations one at a time, on a small data set: the round trips each waits for, and its cost.

They use an `Ask` function, so that Confab and the baseline get the same operations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from bench.suite.queries import CREATE_GROUP, HISTORY, READ, SEND, SESSIONS, SYNC

GROUP_SIZE = 200
_SESSIONS = 60
_PAGE = 50
_AT_ONCE = 20

_PIN = (
    "mutation ($id: ID!, $n: Int!) { pinSession(conversationId: $id, priority: $n) { id priority writeTs activeTs } }"
)
_MUTE = "mutation ($id: ID!, $on: Boolean!) { muteSession(conversationId: $id, muted: $on) { id muteStatus activeTs } }"

Act = Callable[[], Awaitable[object]]


class Ask(Protocol):
    """Executes an operation as a user and returns the value of its one field. Raises if there are errors."""

    async def __call__(self, user: str, query: str, **variables: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation to count. before: preparation before each time, not counted."""

    key: str
    title: str
    act: Act
    before: Act | None = None
    settle_seconds: float = 0.02
    """Duration of the work it causes after the answer, in seconds."""


def members() -> list[str]:
    return [f"m{number:03}" for number in range(GROUP_SIZE)]


def others() -> list[str]:
    return [f"o{number:02}" for number in range(_SESSIONS)]


def people() -> list[str]:
    """Return the people who must exist."""
    return ["alice", "bob", *members(), *others()]


async def prepare(ask: Ask, changes: Sequence[str] = ()) -> list[Operation]:
    """Create the data. changes: which of `pin` and `mute` are wanted."""
    numbers = count(1)

    async def send(sender: str, **to: str) -> Any:
        return await ask(sender, SEND, input={**to, "content": f"Some message, number {next(numbers)}"})

    await _some_at_a_time([_sending(send, other, "alice") for other in others()])
    talk = (await send("bob", toUserId="alice"))["message"]["conversationId"]
    await _some_at_a_time([_sending(send, "bob", "alice") for _ in range(_PAGE)])
    group = (await ask(members()[0], CREATE_GROUP, input={"name": "All", "memberIds": members()[1:]}))["id"]
    await _some_at_a_time([_reading(ask, member) for member in members()])
    await asyncio.sleep(0.3)
    since = (await ask("alice", SESSIONS, first=_PAGE))["cursor"]
    await asyncio.gather(*(send(other, toUserId="alice") for other in others()[:3]))
    await asyncio.sleep(0.3)

    async def synchronise() -> None:
        assert len((await ask("alice", SYNC, since=since))["sessions"]) == 3

    found = [
        Operation("sessions", "sessions, first page of 50, warm", lambda: ask("alice", SESSIONS, first=_PAGE)),
        Operation("sync", "syncSessions, 3 changes", synchronise),
        Operation("history", "messages, page of 50", lambda: ask("bob", HISTORY, id=talk, last=_PAGE)),
        Operation("private", "sendMessage, private", lambda: send("alice", toUserId="bob")),
        Operation(
            "group",
            f"sendMessage, group of {GROUP_SIZE}",
            lambda: send(members()[0], conversationId=group),
            settle_seconds=0.1,
        ),
        Operation("read", "markRead", lambda: ask("alice", READ, id=talk), lambda: send("bob", toUserId="alice")),
    ]
    values = {
        "pin": (_PIN, "pinSession", lambda n: {"n": n}),
        "mute": (_MUTE, "muteSession", lambda n: {"on": n % 2 == 0}),
    }
    for change in changes:
        query, title, variables = values[change]
        found.append(_change(ask, change, title, query, talk, variables))
    return found


def _change(
    ask: Ask, key: str, title: str, query: str, talk: str, variables: Callable[[int], dict[str, Any]]
) -> Operation:
    numbers = count(2)
    return Operation(key, title, lambda: ask("alice", query, id=talk, **variables(next(numbers))))


async def _sending(send: Callable[..., Awaitable[Any]], sender: str, to: str) -> None:
    await send(sender, toUserId=to)


async def _reading(ask: Ask, user: str) -> None:
    await ask(user, SESSIONS, first=1)


async def _some_at_a_time(tasks: Sequence[Awaitable[object]]) -> None:
    waiting = iter(tasks)

    async def several() -> None:
        for task in waiting:
            await task

    await asyncio.gather(*(several() for _ in range(_AT_ONCE)))
