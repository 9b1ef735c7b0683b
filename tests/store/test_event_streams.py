"""Tokens of event streams are reserved, opened once, kept by the server that has the stream, and forgotten."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.base.ids import UserId
from store.deployment.event_streams import (
    MAX_OPERATION_BYTES,
    OPEN_MS,
    RESERVED_MS,
    EventStreamStore,
    QueueOutcome,
    StreamLocation,
)
from store.redis.cache import Cache, Call
from store.scripts import read_scripts

ALICE = UserId("alice")


@pytest.fixture
async def cache(redis_url: str, redis_prefix: str) -> AsyncIterator[Cache]:
    cache = Cache(redis_url, read_scripts, prefix=redis_prefix)
    yield cache
    await cache.close()


@pytest.fixture
def store(cache: Cache) -> EventStreamStore:
    return EventStreamStore(cache, cache.keys)


@pytest.fixture
def token() -> str:
    return secrets.token_urlsafe()


async def lifetimes(cache: Cache, redis: Any) -> set[int]:
    """Return the remaining lifetimes of the keys in Redis, in whole seconds, rounded up."""
    keys = [key.decode() for key in redis.scan_iter(match=f"{cache.keys.namespace}*")]
    return {-(-milliseconds // 1000) for milliseconds in await cache.run([Call("PTTL", (key,)) for key in keys])}


async def test_a_token_is_opened_once_by_one_server_and_forgotten_at_the_end(
    store: EventStreamStore, token: str, cache: Cache, _redis_janitor: Any
) -> None:
    assert await store.find(token) is None
    await store.reserve(token, ALICE)
    assert await store.find(token) == StreamLocation(ALICE, None)
    assert await lifetimes(cache, _redis_janitor) == {RESERVED_MS // 1000}
    assert await store.open(token, ALICE, "here") == []
    assert await store.open(token, ALICE, "there") is None
    assert await store.find(token) == StreamLocation(ALICE, "here")
    assert await lifetimes(cache, _redis_janitor) == {OPEN_MS // 1000}
    await store.delete(token)
    assert await store.find(token) is None


async def test_the_server_with_the_stream_restores_what_redis_lost(
    store: EventStreamStore, token: str, cache: Cache, _redis_janitor: Any
) -> None:
    await store.renew("here", [])
    await store.renew("here", [(token, ALICE)])
    assert await store.find(token) == StreamLocation(ALICE, "here")
    assert await lifetimes(cache, _redis_janitor) == {OPEN_MS // 1000}


async def test_operations_wait_for_the_stream_within_limits(
    store: EventStreamStore, token: str, cache: Cache, _redis_janitor: Any
) -> None:
    await store.reserve(token, ALICE)
    assert await store.enqueue(token, "one", b"1", 2) is QueueOutcome.QUEUED
    assert await store.enqueue(token, "one", b"x", 2) is QueueOutcome.EXISTS
    assert await store.enqueue(token, "two", b"x" * (MAX_OPERATION_BYTES + 1), 2) is QueueOutcome.FULL
    assert await store.enqueue(token, "two", b"2", 2) is QueueOutcome.QUEUED
    assert await store.enqueue(token, "three", b"3", 2) is QueueOutcome.FULL
    assert await store.withdraw(token, "three") is False
    assert await store.withdraw(token, "one") is True
    assert await lifetimes(cache, _redis_janitor) == {RESERVED_MS // 1000}
    assert await store.open(token, ALICE, "here") == [b"2"]
    assert await store.withdraw(token, "two") is False
