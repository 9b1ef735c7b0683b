"""One process's parts: what they are made of, and that they end, whatever the databases do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

from server.services import open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.deployment.deployment import Deployment
from store.redis.cache import Call
from store.redis.scripts import read_scripts


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.services._CHECK_SECONDS", 0.3)


@pytest.mark.parametrize(("driver", "client"), [("pymongo", AsyncMongoClient), ("motor", AsyncIOMotorClient)])
async def test_mongodb_is_spoken_to_by_the_driver_that_is_set(
    settings_with: Callable[..., Settings], driver: str, client: type
) -> None:
    async with open_services(settings_with(mongo_driver=driver)) as services:
        assert isinstance(services.app.store.mongo._client, client)
        assert await services.check() == {"mongodb": None, "redis": None}


@pytest.mark.parametrize(
    ("away", "setting", "url"),
    [
        ("mongodb", "mongo_url", "mongodb://127.0.0.1:1/?directConnection=true"),
        ("redis", "redis_url", "redis://127.0.0.1:1/0"),
    ],
)
async def test_the_process_knows_which_database_is_away_and_ends_all_the_same(
    settings_with: Callable[..., Settings], impatient: None, away: str, setting: str, url: str
) -> None:
    async with asyncio.timeout(10), open_services(settings_with(**{setting: url})) as services:
        began = time.monotonic()
        found = await services.check()
        took = time.monotonic() - began
    assert {name for name, reason in found.items() if reason is not None} == {away, "start"}
    assert set(found) == {"mongodb", "redis", "start"}
    assert took < 2


async def test_it_ends_though_a_driver_takes_its_cancellation_for_a_failure(
    settings: Settings, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[asyncio.CancelledError] = []

    async def never_open(_: Deployment) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            if lost:
                raise
            lost.append(cancelled)
            raise Unreachable("as PyMongo says now and then while MongoDB is away") from None

    monkeypatch.setattr(Deployment, "open", never_open)
    async with asyncio.timeout(5), open_services(settings):
        pass
    assert lost


async def test_it_is_ready_once_redis_knows_the_scripts_and_mongodb_the_indexes_and_not_before(
    settings: Settings, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, lease = asyncio.Event(), Deployment.lease

    async def late(self: Deployment, *given: Any) -> None:
        await gate.wait()
        await lease(self, *given)

    monkeypatch.setattr(Deployment, "lease", late)
    async with asyncio.timeout(10), open_services(settings) as services:
        found = await services.check()
        assert found.pop("start")
        assert found == {"mongodb": None, "redis": None}
        cache = services.app.store.cache
        await cache.one(Call("SCRIPT", (), ("FLUSH",)))
        gate.set()
        await services.opened.wait()
        assert await services.check() == {"mongodb": None, "redis": None}
        digests = [script.digest for script in read_scripts().values()]
        assert await cache.one(Call("SCRIPT", (), ("EXISTS", *digests))) == [1] * len(digests)
        indexes = await services.app.store.mongo._database["messages"].index_information()
        assert any(index.get("unique") for index in indexes.values())
