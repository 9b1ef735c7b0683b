"""One process's parts: what they are made of, and that they end, whatever the databases do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

from server.services import open_services
from server.settings import Settings
from store.deployment import Deployment
from store.errors import Unreachable


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
    assert {name for name, reason in found.items() if reason is not None} == {away}
    assert set(found) == {"mongodb", "redis"}
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
