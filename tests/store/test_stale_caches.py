"""The memory of stale caches is bounded, and nothing is discarded that is up to date."""

from __future__ import annotations

import pytest

from store.base.ids import UserId
from store.deployment import stale_caches
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
