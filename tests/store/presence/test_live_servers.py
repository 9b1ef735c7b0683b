"""Servers end when they report it, or are silent for 30 s while others can read Redis."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from store.base.clock import DeploymentClock
from store.base.errors import Unreachable
from store.presence.server_times import ServerTimes
from store.redis.cache import Call
from store.store import Store
from subscriptions.presence.live_servers import SILENT_AFTER_MS, LiveServers
from tests.clock import DAY_MS, ManualClock

STEP_MS = 5_000


class World:
    """Some servers with a clock that moves only in `run`. Each has its own view of the others."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = ManualClock()
        self.heard: dict[str, list[Collection[str]]] = {}

    def start(self, name: str, lead_ms: int = 0) -> LiveServers:
        clock = DeploymentClock(self.clock)
        clock.advance_to(self.clock.ms + lead_ms)
        server = LiveServers(ServerTimes(self.store.cache, self.store.keys, clock), clock, name)
        self.heard[name] = []
        server.on_end(self.heard[name].append)
        return server

    async def run(self, seconds: int, *servers: LiveServers) -> None:
        """Let servers report every five seconds, at the same times."""
        for _ in range(0, seconds * 1_000, STEP_MS):
            self.clock.ms += STEP_MS
            for server in servers:
                await server.report()

    async def lose_redis(self) -> None:
        await self.store.cache.one(Call("DEL", (self.store.keys.server_times,)))


@pytest.fixture
async def world(store: Store) -> World:
    return World(store)


async def test_a_silent_server_ends_30_s_after_its_last_report(world: World) -> None:
    one, two = world.start("one"), world.start("two")
    await world.run(60, two, one)
    last = world.clock.ms
    await world.run(25, one)
    assert one.find_end("two") is None and world.heard["one"] == []
    await world.run(5, one)
    assert one.find_end("two") == last + SILENT_AFTER_MS
    assert world.heard["one"] == [["two"]]
    await world.run(60, one)
    assert one.find_end("two") == last + SILENT_AFTER_MS and len(world.heard["one"]) == 1


async def test_a_server_that_reports_its_end_has_ended_at_that_time(world: World) -> None:
    one, two = world.start("one"), world.start("two")
    await world.run(10, two, one)
    world.clock.ms += 1_000
    await two.close()
    ended = world.clock.ms
    await world.run(5, one)
    assert one.find_end("two") == ended and world.heard["one"] == [["two"]]
    # A report that was under way does not bring it back.
    await two.report()
    await world.run(5, one)
    assert one.find_end("two") == ended


async def test_a_server_that_comes_back_is_alive_again(world: World) -> None:
    one, two = world.start("one"), world.start("two")
    await world.run(60, two, one)
    await world.run(40, one)
    assert one.find_end("two") is not None
    await world.run(5, two, one)
    assert one.find_end("two") is None and world.heard["one"] == [["two"], ["two"]]
    await two.close()
    await world.run(5, one)
    await world.run(5, world.start("two"), one)
    assert one.find_end("two") is None and len(world.heard["one"]) == 4


async def test_no_server_ends_while_redis_is_away_or_soon_after(world: World) -> None:
    one, two, dead = world.start("one"), world.start("two"), world.start("dead")
    await world.run(60, two, dead, one)
    last = world.clock.ms
    world.clock.ms += 600_000
    assert one.find_end("two") is None
    await one.report()
    assert one.find_end("two") is None
    await world.run(25, one, two)
    assert one.find_end("two") is None and one.find_end("dead") is None
    await world.run(5, one, two)
    assert one.find_end("two") is None and one.find_end("dead") == last + SILENT_AFTER_MS


async def test_no_server_ends_within_30_s_of_a_loss_of_redis(world: World) -> None:
    one, two = world.start("one"), world.start("two")
    await world.run(60, two, one)
    last = world.clock.ms
    await world.lose_redis()
    await world.run(25, one)
    assert one.find_end("two") is None
    await world.run(5, one)
    # What was known before the loss still counts.
    assert one.find_end("two") == last + SILENT_AFTER_MS


async def test_a_new_process_waits_30_s_before_it_judges(world: World) -> None:
    one, dead = world.start("one"), world.start("dead")
    await world.run(60, dead, one)
    last = world.clock.ms
    await world.run(60, one)
    new = world.start("new")
    await world.run(30, one, new)
    assert new.find_end("dead") is None
    await world.run(5, one, new)
    assert new.find_end("dead") == one.find_end("dead") == last + SILENT_AFTER_MS


async def test_a_server_that_is_not_known_ends_after_30_s(world: World) -> None:
    one = world.start("one")
    await world.run(60, one)
    asked = world.clock.ms
    assert one.find_end("never") is None
    await world.run(25, one)
    assert one.find_end("never") is None
    await world.run(5, one)
    assert one.find_end("never") == asked + SILENT_AFTER_MS and world.heard["one"] == [["never"]]


async def test_clocks_that_differ_end_no_server(world: World) -> None:
    behind, ahead = world.start("behind"), world.start("ahead", lead_ms=120_000)
    await world.run(300, behind, ahead)
    assert behind.find_end("ahead") is None and ahead.find_end("behind") is None
    assert world.heard == {"behind": [], "ahead": []}


async def test_entries_are_removed_after_a_day(world: World) -> None:
    one, dead = world.start("one"), world.start("dead")
    await world.run(60, dead, one)
    world.clock.ms += DAY_MS
    await world.run(5, one)
    await world.run(5, one)
    names = await world.store.cache.one(Call("HKEYS", (world.store.keys.server_times,)))
    assert names == [b"one"] and set(one._known) == {"one"}


async def test_a_report_fails_while_servers_share_no_redis(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = world.start("one"), world.start("two")
    await world.run(60, two, one)

    def refuse() -> None:
        raise Unreachable("Redis is unavailable")

    monkeypatch.setattr(world.store.cache, "require_shared", refuse)
    for _ in range(20):
        world.clock.ms += STEP_MS
        with pytest.raises(Unreachable):
            await one.report()
    assert one.find_end("two") is None
    # The end is reported as far as possible.
    await one.close()


async def test_a_server_that_returns_after_a_pause_is_called_until_all_have_read_it(world: World) -> None:
    one, two = world.start("one"), world.start("two")
    returns: list[str] = []
    one.on_return(lambda: returns.append("one"))
    two.on_return(lambda: returns.append("two"))
    await world.run(60, one, two)
    assert returns == []
    await world.run(120, one)
    assert one.find_end("two") is not None and returns == []
    await world.run(60, two, one)
    assert one.find_end("two") is None
    assert returns == ["two"] * 3
