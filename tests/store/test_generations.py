"""Data of another Redis, or of an older one, is never read: its first use begins a generation of keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from store.base.clock import DeploymentClock, SystemClock
from store.base.errors import Unreachable
from store.build import build_store
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.redis.backends import FallbackBackend
from store.redis.cache import Cache, Call
from store.redis.request_scope import RequestScope, discard_request_cache
from store.scripts import read_scripts
from store.store import Store


@pytest.fixture
async def other(store: Store, mongo_url: str, emptied_database: str) -> AsyncIterator[Store]:
    """Another process of the deployment."""
    mongo = Mongo(mongo_url, emptied_database)
    built = build_store(
        mongo,
        Cache(store.cache.url, read_scripts, prefix=store.keys.prefix),
        DeploymentClock(SystemClock()),
        data_center=0,
    )
    await built.deployment.open()
    yield built
    await built.cache.close()
    await mongo.close()


async def stored_word(store: Store) -> bytes | None:
    found: bytes | None = await store.cache.one(Call("GET", (f"{store.keys.namespace}word",)))
    return found


async def store_word(store: Store, word: str) -> None:
    await store.cache.one(Call("SET", (f"{store.keys.namespace}word",), (word,)))


async def restart_redis(store: Store) -> None:
    """Give Redis another run id, as a restart does; its data stays."""
    assert await store.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"run": "the one before"}})


async def test_processes_share_redis_before_and_after_its_restart(store: Store, other: Store) -> None:
    await store_word(store, "old")
    assert await stored_word(other) == b"old"
    await restart_redis(store)
    for each in (store, other):
        each.cache.drop()
        await each.deployment.check_redis()
        assert await stored_word(each) is None
    assert store.deployment.generations.number == other.deployment.generations.number == 2
    assert store.deployment.redis_epoch == other.deployment.redis_epoch
    assert store.deployment.redis_lost_at_ms > 0
    await store_word(other, "new")
    assert await stored_word(store) == b"new"


async def test_many_processes_that_find_a_new_redis_begin_one_generation(store: Store, other: Store) -> None:
    await restart_redis(store)
    for each in (store, other):
        each.deployment.generations.reconnect()
    pings = [each.cache.one(Call("PING", ())) for each in (store, other) for _ in range(10)]
    assert await asyncio.gather(*pings) == [b"PONG"] * 20
    assert store.deployment.generations.number == other.deployment.generations.number == 2


async def test_a_process_that_stayed_connected_follows_the_new_generation(store: Store, other: Store) -> None:
    await store_word(store, "old")
    epoch = store.deployment.redis_epoch
    await other.deployment.generations.begin_next()
    await store.deployment.check_redis()
    assert store.deployment.redis_epoch != epoch
    assert await stored_word(store) is None


async def test_a_key_of_a_former_generation_is_not_sent(store: Store) -> None:
    old = Call("GET", (f"{store.keys.namespace}word",))
    await store_word(store, "old")
    await store.deployment.generations.begin_next()
    with pytest.raises(Unreachable):
        await store.cache.one(old)
    await store.cache.one(Call("PING", ()))
    with pytest.raises(Unreachable, match="former generation"):
        await store.cache.one(old)


async def test_redis_is_not_used_before_mongodb_has_named_its_generation(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise Unreachable("MongoDB is unavailable")

    monkeypatch.setattr(other.mongo, "find", fail)
    assert await stored_word(other) is None
    await restart_redis(store)
    other.deployment.generations.reconnect()
    with pytest.raises(Unreachable, match="MongoDB is unavailable"):
        await stored_word(other)


class _FallbackServer:
    """A stand-in for the server of a Redis fallback: the Redis of the tests."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> str:
        return self._url


async def test_a_server_that_alone_lost_redis_empties_its_fallback(
    store: Store, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise Unreachable("away")

    monkeypatch.setattr(store.cache, "ping", fail)
    monkeypatch.setattr(store.deployment.generations, "_fallback", _FallbackServer(redis_url))
    cleared = []

    async def clear(_backend: FallbackBackend) -> None:
        cleared.append("cleared")

    monkeypatch.setattr(FallbackBackend, "clear", clear)
    store.cache.use_fallback(redis_url)
    assert not store.cache.is_shared
    with pytest.raises(Unreachable):
        await store.deployment.check_redis()
    assert store.cache.is_shared
    assert cleared == ["cleared"]


async def test_each_request_starts_with_an_empty_fallback(store: Store) -> None:
    fallback = FallbackBackend(store.cache.url, read_scripts)
    get, put = Call("GET", ("word",)), Call("SET", ("word",), ("kept", "PX", 60_000))
    with RequestScope():
        await fallback.run([put])
        assert await fallback.run([get]) == [b"kept"]
        with RequestScope():
            assert await fallback.run([get]) == [None]
        assert await fallback.run([get]) == [b"kept"]
        discard_request_cache()
        assert await fallback.run([get]) == [None]
    await fallback.run([put])
    assert await fallback.run([get]) == [None]
    await fallback.close()
