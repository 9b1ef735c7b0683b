"""What a process owes to cached states is bounded, and nothing is forgotten that is right already."""

from __future__ import annotations

import pytest

from store.base.ids import UserId
from store.deployment import stale_caches as owed
from store.store import Store


async def test_more_than_is_remembered_has_all_that_redis_holds_forgotten_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed, "_MOST", 10)
    generations = store.deployment.generations
    for n in range(100):
        store.owed.add_user(UserId(f"u{n}"))
        assert len(store.owed._users) <= 10
    before = generations.number
    await store.owed.pay()
    await store.deployment.check_redis()
    assert generations.number == before + 1
    generations.began_at += 1.0
    await store.owed.pay()
    await store.deployment.check_redis()
    assert generations.number == before + 1


async def test_what_was_durable_before_redis_was_begun_anew_has_nothing_forgotten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all servers find it after hours without Redis."""
    monkeypatch.setattr(owed, "_MOST", 10)
    generations = store.deployment.generations
    for n in range(100):
        store.owed.add_user(UserId(f"u{n}"))
    before = generations.number
    generations.began_at += 1.0
    await store.owed.pay()
    await store.deployment.check_redis()
    assert generations.number == before
