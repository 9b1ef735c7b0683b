"""The memory of stale caches is bounded, and nothing is discarded that is up to date."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from store.base.ids import UserId
from store.deployment import stale_caches
from store.redis.keys import slot_of_tag, user_tag
from store.store import Store


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
    generations.began_at += 1.0
    await store.stale_caches.invalidate()
    await store.deployment.check_redis()
    assert generations.number == before
