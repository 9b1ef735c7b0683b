"""Events of a user with very many subscriptions: few are executed at once, and others get theirs without delay."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from schema.execution import event_slots
from schema.execution.engine import Engine
from tests.api.client import Api, Subscriber, wait_until

_names = itertools.count()

WAITING = 5
"""Events of a user that may wait in these tests."""


def unique_subscription() -> str:
    """Return a subscription with a selection that no other test uses."""
    return f"""subscription {{ messageEvents {{ ... on MessageCreated {{ message {{ fair{next(_names)}: id content }} }}
        ... on CaughtUp {{ reset }} }} }}"""


class HeldExecutions:
    """Executions of messages for one user that have begun, and wait until they are released."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.user = ""
        self.begun = 0
        self.released = asyncio.Event()
        execute = engine.execute_event

        def execute_held(execution: Any, event: Any, viewer: Any, user: str) -> Any:
            if user != self.user or hasattr(event, "reset"):
                return execute(execution, event, viewer, user)  # type: ignore[arg-type]
            self.begun += 1

            async def wait() -> bytes:
                await self.released.wait()
                outcome = execute(execution, event, viewer, user)  # type: ignore[arg-type]
                return outcome if isinstance(outcome, bytes) else await outcome

            return wait()

        monkeypatch.setattr(engine, "execute_event", execute_held)


async def content_of(subscriber: Subscriber) -> str:
    content = (await subscriber.next())["message"]["content"]
    assert isinstance(content, str)
    return content


async def expect_nothing_left(engine: Any) -> None:
    slots = engine._event_slots

    async def is_empty() -> bool:
        return not (slots._queue.running or slots._queue.waiting or slots._waiting)

    await wait_until(is_empty)


async def test_events_beyond_a_users_bounds_wait_or_reset_and_delay_nobody(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = api.services.engine
    slots = engine._event_slots
    monkeypatch.setattr(slots, "_max_waiting", WAITING)
    flood, bob, carol = await api.create_users("flood", "bob", "carol")
    group = await api.create_group(carol, flood, bob)
    held = HeldExecutions(engine, monkeypatch)
    subscriptions = [await api.listen(flood, unique_subscription()) for _ in range(8)]
    others = [await api.listen(bob, unique_subscription())]
    held.user = flood
    await api.send(carol, group, "first")
    assert await content_of(others[0]) == "first"
    assert held.begun == event_slots.MAX_RUNNING_PER_USER < WAITING
    assert slots.dropped == 3
    held.released.set()
    events = [await subscriber.next() for subscriber in subscriptions]
    # Each subscription whose event could not wait got a reset.
    assert events.count({"reset": True}) == 3
    assert [event["message"]["content"] for event in events if "message" in event] == ["first"] * WAITING
    monkeypatch.setattr(slots, "_max_waiting", len(subscriptions))
    await api.send(carol, group, "second")
    for subscriber in (*subscriptions, *others):
        assert await content_of(subscriber) == "second"
    await expect_nothing_left(engine)


async def test_a_shared_event_does_not_wait_for_the_user_with_most_running_work(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = api.services.engine
    flood, bob, carol = await api.create_users("flood", "bob", "carol")
    group = await api.create_group(carol, flood, bob)
    held = HeldExecutions(engine, monkeypatch)
    shared = unique_subscription()
    queries = [unique_subscription() for _ in range(event_slots.MAX_RUNNING_PER_USER)]
    subscriptions = [await api.listen(flood, query) for query in (*queries, shared)]
    other = await api.listen(bob, shared)
    held.user = flood
    await api.send(carol, group, "first")
    assert await content_of(other) == "first"
    assert await content_of(subscriptions[-1]) == "first"
    held.released.set()
    for subscriber in subscriptions[:-1]:
        assert await content_of(subscriber) == "first"
    await expect_nothing_left(engine)


async def test_a_burst_of_executions_for_one_user_yields_to_other_tasks(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = api.services.engine
    flood, bob = await api.create_users("flood", "bob")
    subscriptions = [await api.listen(flood, unique_subscription()) for _ in range(6)]
    waited = list[str]()
    start = engine._event_slots.start

    async def count_and_start(user: str) -> None:
        waited.append(user)
        await start(user)

    monkeypatch.setattr(event_slots, "_BURST_SECONDS", 0.0)
    monkeypatch.setattr(engine._event_slots, "start", count_and_start)
    await api.send(bob, flood, "first")
    for subscriber in subscriptions:
        assert await content_of(subscriber) == "first"
    assert set(waited) == {flood} and len(waited) >= 3
    await expect_nothing_left(engine)
