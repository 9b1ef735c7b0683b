"""The memory of stale caches is bounded, and nothing is discarded that is up to date."""

from __future__ import annotations

import time
from collections.abc import Collection

import pytest

from store.base.ids import ConversationId, UserId
from store.clocks.shared_clocks import ClockEntry, SharedClocks
from store.deployment import stale_caches
from store.redis.keys import slot_of_tag, user_tag
from store.store import Store
from tests.clock import ManualClock


async def test_too_many_stale_caches_begin_the_next_generation_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stale_caches, "_MAX_REMEMBERED", 10)
    generations = store.deployment.generations
    for n in range(100):
        store.stale_caches.add_user(UserId(f"u{n}"))
        assert len(store.stale_caches._stale_users) <= 10
    before = generations.number
    await store.stale_caches.invalidate()
    await store.deployment.check_redis()
    assert generations.number == before + 1
    generations.began_at += 1.0
    await store.stale_caches.invalidate()
    await store.deployment.check_redis()
    assert generations.number == before + 1


async def test_caches_that_become_too_many_while_others_are_discarded_are_discarded_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stale_caches, "_MAX_REMEMBERED", 10)
    generations = store.deployment.generations
    begin_next, begun = generations.begin_next, list[Collection[int] | None]()

    async def add_more(slots: Collection[int] | None = None) -> None:
        if not begun:
            for n in range(20, 31):
                store.stale_caches.add_user(UserId(f"u{n}"))
        begun.append(slots)
        await begin_next(slots)
        generations.began_at -= 10.0

    monkeypatch.setattr(generations, "begin_next", add_more)
    for n in range(11):
        store.stale_caches.add_user(UserId(f"u{n}"))
    for _ in range(3):
        await store.stale_caches.invalidate()
        await store.deployment.check_redis()
        generations.began_at -= 10.0
    first, second = (
        {slot_of_tag(user_tag(UserId(f"u{n}"))) for n in numbers} for numbers in (range(11), range(20, 31))
    )
    assert [set(slots or ()) for slots in begun] == [first, second]


async def test_changes_from_before_this_generation_invalidate_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The situation of all servers after hours without Redis."""
    monkeypatch.setattr(stale_caches, "_MAX_REMEMBERED", 10)
    generations = store.deployment.generations
    for n in range(100):
        store.stale_caches.add_user(UserId(f"u{n}"))
    before = generations.number
    generations.began_at = time.monotonic() + 1.0
    await store.stale_caches.invalidate()
    await store.deployment.check_redis()
    assert generations.number == before


async def test_the_clock_of_a_workspace_begins_one_epoch_for_all_its_channels(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    async def note(workspace: str) -> None:
        ended.append(workspace)

    monkeypatch.setattr(store.stale_caches, "end_epoch", note)
    channels = [ConversationId(f"c_5.{number}") for number in range(20)]
    for channel in channels:
        store.stale_caches.add_conversation(channel)
    await store.stale_caches.invalidate()
    # The outbox has what could not be delivered, so another attempt follows.
    assert ended == []
    # The fallback was used until a moment ago: nothing else has what could not be delivered.
    monkeypatch.setattr(store.cache, "_left_fallback_at", time.monotonic())
    for channel in channels:
        store.stale_caches.add_conversation(channel)
    for _ in range(2):
        await store.stale_caches.invalidate()
    assert ended == ["w_5"]


async def test_a_new_epoch_begins_after_the_ticks_of_the_one_before(store: Store) -> None:
    """The clock of the server stands still. Positions of the epoch before differ from those of the new one."""
    clocks = SharedClocks(store.cache, store.keys, ManualClock())
    entry = ClockEntry("entry", "", (), "", False)
    before = await clocks.append("w_5", entry)
    for _ in range(3):
        await clocks.end_epoch("w_5")
        (reading,) = await clocks.read(["w_5"])
        assert reading.epoch != before.epoch and reading.tick > before.tick
        await clocks.end_epoch("w_5")
        before = await clocks.append("w_5", entry)
        assert before.epoch != reading.epoch and before.tick > reading.tick
