"""One request a second to each site, over all servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from store.previews.host_turns import MAX_WAITING, HostBusy, HostTurns
from store.redis.cache import Cache
from store.redis.keys import Keys
from store.scripts import read_scripts

LONG_MS = 600_000


@pytest.fixture
async def cache(redis_url: str, redis_prefix: str) -> AsyncIterator[Cache]:
    opened = Cache(redis_url, read_scripts, prefix=redis_prefix)
    yield opened
    await opened.close()


def turns_on(cache: Cache, turn_ms: int) -> HostTurns:
    return HostTurns(cache, cache.keys, turn_ms=turn_ms, wait_seconds=60.0)


async def expect_busy(turns: HostTurns, name: str) -> None:
    turns._wait_seconds = 0.1
    with pytest.raises(HostBusy):
        await turns.wait(name)
    turns._wait_seconds = 60.0


async def test_a_second_request_waits_for_the_end_of_the_turn(cache: Cache) -> None:
    here, there = turns_on(cache, LONG_MS), turns_on(cache, LONG_MS)
    await here.wait("site.example")
    for server in (here, there):
        await expect_busy(server, "site.example")
    await there.wait("other.example")


async def test_a_turn_ends_on_all_servers(cache: Cache) -> None:
    here, there = turns_on(cache, 50), turns_on(cache, 50)
    for server in (here, there, here, here, there):
        await server.wait("site.example")


async def test_few_requests_wait_for_a_host_and_the_next_one_is_refused(cache: Cache) -> None:
    turns = turns_on(cache, LONG_MS)
    await turns.wait("site.example")
    waiting = [asyncio.create_task(turns.wait("site.example")) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(HostBusy):
        await turns.wait("site.example")
    await turns.wait("other.example")
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert turns._hosts["site.example"].waiting == 0


async def test_without_redis_a_process_limits_alone() -> None:
    away = Cache("redis://127.0.0.1:1/0", read_scripts)
    turns = HostTurns(away, Keys(""), turn_ms=LONG_MS, wait_seconds=60.0)
    await turns.wait("site.example")
    await expect_busy(turns, "site.example")
    await turns.wait("other.example")
    await away.close()


async def test_hosts_are_forgotten_after_their_turn(cache: Cache) -> None:
    turns = turns_on(cache, 10)
    for number in range(20):
        await turns.wait(f"site{number}.example")
    while turns._hosts:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
