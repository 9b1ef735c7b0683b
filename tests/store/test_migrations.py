"""Migrations of stored data while it is in use, and the refusal of data that is too new.

The migration is the tests' own.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from server.cli.migrate import migrate_data
from server.errors import CommandError
from server.services import open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.deployment.deployment import Deployment
from store.mongo.client import Mongo
from store.mongo.indexes import OPTIONAL, REQUIRED
from store.mongo.migrations import Batch, Migration, Migrator, NewerData, check_version
from tests.server.served_app import serving_app
from tests.server.tokens import SECRET
from tests.waiting import TIMEOUT_SECONDS

ROWS, SIZE = 25, 10


async def _double(mongo: Mongo, at: Any) -> Batch:
    """Add a `two` to things that have a `one`."""
    rows = await mongo.find("things", {"_id": {"$gt": at if at is not None else -1}}, sort=[("_id", 1)], limit=SIZE)
    for row in rows:
        await mongo.update_one("things", {"_id": row["_id"]}, [{"$set": {"two": {"$multiply": ["$one", 2]}}}])
    return Batch(len(rows), rows[-1]["_id"] if len(rows) == SIZE else None)


TO_TWO = Migration(2, "things get a two", _double)


@pytest.fixture
async def mongo(settings: Settings) -> AsyncIterator[Mongo]:
    async with open_services(settings):
        pass
    mongo = Mongo(settings.mongo_url, settings.mongo_database)
    await mongo.insert_many("things", [{"_id": number, "one": number} for number in range(ROWS)])
    yield mongo
    await mongo.close()


async def twos(mongo: Mongo) -> int:
    rows = await mongo.find("things", {"two": {"$exists": True}})
    assert all(row["two"] == 2 * row["one"] for row in rows)
    return len(rows)


async def test_a_migration_resumes_where_the_last_one_died(mongo: Mongo) -> None:
    steps: list[Any] = []

    async def dying(mongo: Mongo, at: Any) -> Batch:
        steps.append(at)
        if len(steps) == 2:
            raise Unreachable("the process died here")
        return await _double(mongo, at)

    migrations = [Migration(2, "things get a two", dying)]
    migrator = Migrator(mongo, migrations, rest=0)
    with pytest.raises(Unreachable):
        await migrator.run()
    assert await twos(mongo) == SIZE
    # Another process, after the lease of the first one.
    await mongo.update_one("migrations", {"_id": 2}, {"$set": {"until": 0}})
    told: list[int] = []
    other = Migrator(mongo, migrations, rest=0)
    assert await other.run(lambda progress: told.append(progress.rows))
    assert (steps, told) == ([None, SIZE - 1, SIZE - 1, 2 * SIZE - 1], [20, 25])
    assert await twos(mongo) == ROWS
    assert await other.run() and len(steps) == 4
    (progress,) = await other.list_progress()
    assert (progress.done, progress.is_running, progress.rows) == (True, False, ROWS)


async def test_one_process_at_a_time_migrates(mongo: Mongo) -> None:
    at_work, gate = asyncio.Event(), asyncio.Event()

    async def slow(mongo: Mongo, at: Any) -> Batch:
        at_work.set()
        await gate.wait()
        return await _double(mongo, at)

    migrations = [Migration(2, "things get a two", slow)]
    first = asyncio.create_task(Migrator(mongo, migrations, rest=0).run())
    await asyncio.wait_for(at_work.wait(), TIMEOUT_SECONDS)
    second = Migrator(mongo, migrations, rest=0)
    assert not await second.run()
    assert [progress.is_running for progress in await second.list_progress()] == [True]
    # It is taken over in the middle of a step of the first one, which notices it and stops.
    await mongo.update_one("migrations", {"_id": 2}, {"$set": {"owner": "somebody", "until": 1 << 52}})
    gate.set()
    assert not await first


async def test_data_of_a_newer_version_is_refused_and_left_untouched(mongo: Mongo, settings: Settings) -> None:
    async def never(_mongo: Mongo, _at: Any) -> Batch:
        raise Unreachable("before the first row")

    with pytest.raises(Unreachable):
        await Migrator(mongo, [Migration(2, "to two", never)]).run()
    await check_version(mongo, [TO_TWO])
    with pytest.raises(NewerData, match="has version 2, but this Confab supports versions up to 1"):
        await check_version(mongo)
    before = await mongo.find("deployment", {}, projection={"time": 0})
    with pytest.raises(NewerData):
        async with open_services(settings):
            pass
    assert await mongo.find("deployment", {}, projection={"time": 0}) == before
    with pytest.raises(CommandError, match="version 2"):
        await migrate_data(settings, run=True, report=print)


async def test_a_server_that_meets_a_newer_version_late_ends_without_a_write(
    mongo: Mongo, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MongoDB was unavailable when the server started."""
    there, stopped = asyncio.Event(), asyncio.Event()
    open_at_once = Deployment.open

    async def open_late(self: Deployment) -> None:
        await there.wait()
        await open_at_once(self)

    monkeypatch.setattr("server.services.START_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(Deployment, "open", open_late)
    monkeypatch.setattr(signal, "raise_signal", lambda number: stopped.set())
    await mongo.update_one("deployment", {"_id": 1}, {"$set": {"version": 2}})
    keyed = settings.model_copy(update={"jwt_secret": SecretStr(SECRET)})
    async with asyncio.timeout(3 * TIMEOUT_SECONDS), serving_app(keyed) as app:
        there.set()
        await stopped.wait()
        before = await mongo.find("users", {})
        answer = (await app.ask("{ me { id } }", "somebody-new")).json()
        assert answer["errors"][0]["extensions"]["code"] == "UNAVAILABLE"
        assert await mongo.find("users", {}) == before


async def test_a_new_deployment_has_the_newest_version(mongo: Mongo) -> None:
    assert (await mongo.find("deployment", {}))[0]["version"] == 1


async def test_confab_migrate_lists_pending_migrations_and_applies_them(mongo: Mongo, settings: Settings) -> None:
    said: list[str] = []
    await migrate_data(settings, run=False, report=said.append, migrations=[TO_TWO])
    assert said == ["version 2 (things get a two): pending, 0 rows"]
    assert await twos(mongo) == 0
    await migrate_data(settings, run=True, report=said.append, migrations=[TO_TWO])
    assert said[-2] == "version 2 (things get a two): done, 25 rows"
    assert await twos(mongo) == ROWS


async def test_a_server_waits_only_for_the_unique_indexes_of_messages(
    mongo: Mongo, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.mongo.indexes._MAX_WAIT_SECONDS", 0.05)
    monkeypatch.setattr("server.services.START_WAIT_SECONDS", 0.3)
    built, gates, ensure = [], {name: asyncio.Event() for name in ("messages", "claims")}, Mongo.ensure_indexes

    async def slowly(self: Mongo, collection: str, indexes: Any) -> None:
        keys = [tuple(index.document["key"]) for index in indexes]
        built.extend(keys)
        await gates["messages" if ("c", "b", "s") in keys else "claims"].wait()
        await ensure(self, collection, indexes)

    monkeypatch.setattr(Mongo, "ensure_indexes", slowly)
    async with open_services(settings) as services:
        deployment: Deployment = services.app.store.deployment
        assert not services.opened.is_set()
        assert (await services.check())["start"]
        gates["messages"].set()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await services.opened.wait()
        # The indexes are requested once, for any number of checks.
        assert built[:3] == [("c", "b", "s"), ("u", "ik", "ir"), ("c", "t", "l")]
        assert len(built) < len((*REQUIRED, *OPTIONAL))
        gates["claims"].set()
        assert deployment.indexes._optional_build is not None
        await deployment.indexes._optional_build
        assert Counter(built) == Counter(tuple(index.document["key"]) for _, index in (*REQUIRED, *OPTIONAL))
