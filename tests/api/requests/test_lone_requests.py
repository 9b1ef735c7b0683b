"""The commands that one request makes while nothing else happens, background work included."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from store.mongo.direct_commands import DirectCommands
from store.mongo.writes import Command
from tests.api.client import TIMEOUT_SECONDS, Api, message_input, private_id
from tests.api.requests.test_budgets import MINIMAL_READ, MINIMAL_SEND

Commands = list[tuple[str, str, int]]
"""Name, collection, and number of statements of each command."""

RUNS = 4


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Commands that change MongoDB, in the order of sending."""
    commands: Commands = []
    begin = DirectCommands.begin

    def note(direct: DirectCommands, some: Sequence[Command], *more: Any) -> list[asyncio.Future[dict[str, Any]]]:
        commands.extend(
            (name, body[name], len(statements)) for body, _, statements in some if (name := next(iter(body))) != "find"
        )
        return begin(direct, some, *more)

    monkeypatch.setattr(DirectCommands, "begin", note)
    return commands


async def _least(api: Api, sent: Commands, request: Callable[[], Awaitable[object]]) -> tuple[Commands, int]:
    """Return the commands of a request, and its round trips to Redis: the least of some runs."""
    cache, found = api.services.app.store.cache, list[tuple[Commands, int]]()
    for _ in range(RUNS):
        await api.wait_until_idle()
        sent.clear()
        before = cache.trips + cache.background_trips
        await request()
        await api.wait_until_idle()
        found.append((sorted(sent), cache.trips + cache.background_trips - before))
    return min((commands for commands, _ in found), key=len), min(trips for _, trips in found)


async def _send(api: Api, sender: str, to: str) -> None:
    await api.data(sender, MINIMAL_SEND, input=message_input(to))


async def test_commands_of_a_lone_message(api: Api, sent: Commands) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    # Redis: the place, the fan-out, and the end of the outbox entry after the answer.
    assert await _least(api, sent, lambda: _send(api, alice, bob)) == (
        [("insert", "messages", 1), ("update", "conversations", 1)],
        3,
    )


async def test_commands_of_a_lone_message_to_a_group(api: Api, sent: Commands) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    assert await _least(api, sent, lambda: _send(api, alice, group)) == (
        [("insert", "messages", 1), ("update", "conversations", 1), ("update", "sessions", 1)],
        3,
    )


async def test_commands_of_a_lone_mark_read(api: Api, sent: Commands) -> None:
    alice, bob = await api.create_users("alice", "bob")
    seqs = [(await api.send(bob, alice))["message"]["seq"] for _ in range(RUNS + 1)]

    async def read() -> None:
        await api.data(alice, MINIMAL_READ, id=private_id(alice, bob), seq=seqs.pop(0))

    # Redis: the lock, the change, and the receipt for bob after the answer.
    assert await _least(api, sent, read) == (
        [("insert", "receipts", 1), ("update", "conversations", 1), ("update", "sessions", 1)],
        3,
    )


async def test_requests_of_many_users_at_once_share_commands(
    api: Api, sent: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(30)))
    await asyncio.gather(*(api.send(alice, other) for other in others))
    await asyncio.gather(*(api.sessions(other) for other in others))
    await api.wait_until_idle()
    sent.clear()
    waiting, has_begun = api.services.app.store.session_rows._commits._queue, False

    async def all_wait() -> None:
        """Hold back the first batch: on a busy machine few requests would wait at the same time."""
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while len(waiting) < len(others):  # noqa: ASYNC110
                    await asyncio.sleep(0.002)

    monkeypatch.setattr(waiting, "_wait_for_others", all_wait)
    await asyncio.gather(*(api.mark_read(other, private_id(alice, other)) for other in others))
    await api.wait_until_idle()
    rows = [count for name, collection, count in sent if (name, collection) == ("update", "sessions")]
    # One row of each reader, in one command. Of alice's sessions at most one each, for a tick that two receipts would
    # share.
    assert rows[0] == len(others) and sum(rows) <= 2 * len(others)
