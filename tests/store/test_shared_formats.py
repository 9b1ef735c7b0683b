"""Servers know the formats of the others, and refuse to work with those that are too far away."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from server.services import open_services
from server.settings import Settings
from store.base.snowflakes import Snowflakes
from store.deployment.deployment import Deployment
from store.deployment.shared_formats import GONE_AFTER_MS, SHARED_FORMAT, IncompatibleServer
from store.deployment.worker_numbers import LEASE_MS, LEASES
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW
from store.store import Store

DATA_CENTER = 5


class Server:
    """A server with a format. Format 1 is the one of servers that write none."""

    def __init__(self, store: Store, number: int) -> None:
        self._store = store
        self._deployment = Deployment(store.mongo, store.cache, store.keys, store.clock, shared_format=number)
        self._writes_none = number == 1
        self.ids = Snowflakes(store.clock, DATA_CENTER)
        self.formats = self._deployment.formats

    async def start(self) -> None:
        """As `server/opening.py` does."""
        if not self._writes_none:
            await self.formats.check()
        await self._deployment.worker_numbers.lease(self.ids, DATA_CENTER)
        if self._writes_none:
            row = {"owner": self._deployment.owner}
            await self._store.mongo.update_one(LEASES, row, {"$unset": {"format": ""}})
        else:
            await self.formats.check()

    async def end(self) -> None:
        await self._deployment.worker_numbers.release(self.ids, DATA_CENTER)

    async def die(self) -> None:
        """Let the lease end by MongoDB's clock."""
        await self._store.mongo.update_one(
            LEASES, {"owner": self._deployment.owner}, {"$inc": {"until": -LEASE_MS - 1_000}}
        )


async def _start(store: Store, number: int) -> Server:
    server = Server(store, number)
    await server.start()
    return server


async def _settle(store: Store, number: int) -> None:
    """Let the time pass after which a format counts as gone."""
    changed = await store.mongo.update_one(
        DEPLOYMENT, {"_id": 1, f"formats.{number}": {"$exists": True}}, {"$inc": {f"formats.{number}": -GONE_AFTER_MS}}
    )
    assert changed


@pytest.fixture
async def store(store: Store) -> Store:
    """A deployment without servers."""
    await store.deployment.worker_numbers.release(store.ids, 0)
    return store


async def test_a_format_is_used_at_once_if_there_was_no_older_server(store: Store) -> None:
    one, two = await _start(store, 2), await _start(store, 2)
    for server in (one, two):
        assert await server.formats.all_servers_have(1)
        assert await server.formats.all_servers_have(2)
        assert not await server.formats.all_servers_have(3)


async def test_nothing_is_known_before_the_first_check(store: Store) -> None:
    formats = Server(store, 2).formats
    assert not await formats.all_servers_have(2)
    assert await formats.all_servers_have(1)


@pytest.mark.parametrize("end", ["end", "die"])
async def test_a_format_waits_until_older_servers_have_been_gone_for_ten_minutes(store: Store, end: str) -> None:
    old, new = await _start(store, 1), await _start(store, 2)
    assert not await new.formats.all_servers_have(2)
    await getattr(old, end)()
    await new.formats.check()
    assert not await new.formats.all_servers_have(2)
    # A server that starts later, with the worker number of the old one, knows the old format too.
    late = await _start(store, 2)
    assert not await late.formats.all_servers_have(2)
    await _settle(store, 1)
    # The row of a server that died stays until another one takes its number.
    await store.mongo.update_one(LEASES, {"format": {"$exists": False}}, {"$inc": {"until": -GONE_AFTER_MS}})
    for server in (new, late):
        await server.formats.check()
        assert await server.formats.all_servers_have(2)


async def test_a_server_whose_lease_ended_before_others_started_is_considered(store: Store) -> None:
    old = await _start(store, 1)
    await old.die()
    new = await _start(store, 2)
    assert not await new.formats.all_servers_have(2)


async def test_an_older_server_that_appears_again_stops_the_use_of_a_format(store: Store) -> None:
    new = await _start(store, 2)
    assert await new.formats.all_servers_have(2)
    await _start(store, 1)
    await new.formats.check()
    assert not await new.formats.all_servers_have(2)


async def test_an_older_server_that_ended_before_others_looked_is_considered(store: Store) -> None:
    new = await _start(store, 2)
    assert await new.formats.all_servers_have(2)
    old = await _start(store, 1)
    old.ids.next()
    await old.end()
    # Ids have the time of the servers' clocks, which tests choose.
    times = [{"$set": {"used": {"$add": [MONGO_NOW, -5_000]}}}]
    assert await store.mongo.update_one(LEASES, {"until": 0, "format": {"$exists": False}}, times)
    await new.formats.check()
    assert not await new.formats.all_servers_have(2)


@pytest.mark.parametrize("ahead_ms", [-2 * GONE_AFTER_MS, 2 * GONE_AFTER_MS])
async def test_ids_of_other_times_are_no_sign_of_an_older_server(store: Store, ahead_ms: int) -> None:
    new = await _start(store, 2)
    await (await _start(store, 1)).end()
    times = [{"$set": {"used": {"$add": [MONGO_NOW, ahead_ms]}}}]
    assert await store.mongo.update_one(LEASES, {"until": 0, "format": {"$exists": False}}, times)
    await new.formats.check()
    assert await new.formats.all_servers_have(2)


async def test_a_server_that_has_just_started_may_begin_generations_of_slots(store: Store) -> None:
    for expected in (True, False):
        starting = Deployment(store.mongo, store.cache, store.keys, store.clock)
        assert await starting.generations.may_differ_by_slot() is expected
        await _start(store, 1)


async def test_a_number_taken_over_by_a_server_without_format_counts_as_the_first_format(store: Store) -> None:
    first, new = await _start(store, 2), await _start(store, 2)
    await first.end()
    await store.mongo.update_one(LEASES, {"until": 0}, {"$set": {"owner": "older", "until": 1 << 52}})
    await new.formats.check()
    assert new.formats.oldest == 1


async def test_an_older_server_refuses_to_start_once_a_later_format_is_used(store: Store) -> None:
    old, new = await _start(store, 2), await _start(store, 3)
    await new.formats.check()
    assert not await new.formats.all_servers_have(3)
    await old.end()
    # Going back is possible until then.
    await (await _start(store, 2)).end()
    await _settle(store, 2)
    await new.formats.check()
    assert await new.formats.all_servers_have(3)
    with pytest.raises(IncompatibleServer, match="uses shared format 3, but this Confab has format 2"):
        await _start(store, 2)


async def test_a_running_server_ends_if_the_deployment_uses_a_later_format(store: Store) -> None:
    """It was paused for so long that its format counts as gone."""
    paused = await _start(store, 2)
    ended = asyncio.Event()
    paused.formats.on_incompatible = ended.set
    await paused.formats.check_running()
    assert not ended.is_set()
    await store.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"minfmt": 3}})
    await paused.formats.check_running()
    assert ended.is_set()


@pytest.mark.parametrize(("running", "starting"), [(1, 3), (4, 2)])
async def test_a_server_more_than_one_format_away_refuses_to_start(store: Store, running: int, starting: int) -> None:
    far = await _start(store, running)
    with pytest.raises(IncompatibleServer, match=f"Running servers have shared format {running},"):
        await _start(store, starting)
    await far.end()
    await _start(store, starting)


async def test_a_process_with_an_incompatible_server_writes_no_lease_and_ends(settings: Settings) -> None:
    async with open_services(settings) as services:
        store = services.app.store
        # Otherwise the housekeeper could renew the lease during the test.
        await services.housekeeper.close()
        await store.mongo.update_one(
            LEASES, {"owner": store.deployment.owner}, {"$set": {"format.n": SHARED_FORMAT + 2}}
        )
        before = await store.mongo.find(LEASES, {})
        with capture_logs() as logs, pytest.raises(IncompatibleServer):
            async with open_services(settings):
                pass
        assert [entry["log_level"] for entry in logs if entry["event"] == "shared_format_incompatible"] == ["critical"]
        assert await store.mongo.find(LEASES, {}) == before
