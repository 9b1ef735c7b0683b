"""The services of a process start, report their readiness, and stop, in any state of the databases."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient
from structlog.testing import capture_logs

from server.services import Services, open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.deployment.deployment import Deployment
from store.deployment.worker_numbers import WorkerNumbers
from store.redis.cache import Call
from store.scripts import read_scripts

TIMEOUT_SECONDS = 60
"""Ends a test that hangs."""


@pytest.fixture
def short_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services start at once, wait for the databases in the background, and do not wait long for a check."""
    monkeypatch.setattr("server.services.START_WAIT_SECONDS", 0.0)
    monkeypatch.setattr("server.services._CHECK_SECONDS", 2.0)


async def until_failing(services: Services, *names: str) -> None:
    """Wait until exactly these checks fail: on a busy machine a check of a healthy database may time out."""
    while {name for name, reason in (await services.check()).items() if reason is not None} != set(names):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("driver", "client"), [("pymongo", AsyncMongoClient), ("motor", AsyncIOMotorClient)])
async def test_mongodb_is_reached_by_the_driver_of_the_settings(
    settings_with: Callable[..., Settings], driver: str, client: type
) -> None:
    async with open_services(settings_with(mongo_driver=driver)) as services:
        assert isinstance(services.app.store.mongo._client, client)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await until_failing(services)


@pytest.mark.parametrize(
    ("name", "setting", "url"),
    [
        ("mongodb", "mongo_url", "mongodb://127.0.0.1:1/?directConnection=true"),
        ("redis", "redis_url", "redis://127.0.0.1:1/0"),
    ],
)
async def test_unreachable_database_is_reported_and_does_not_block_the_end(
    settings_with: Callable[..., Settings], short_start: None, name: str, setting: str, url: str
) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS), open_services(settings_with(**{setting: url})) as services:
        await until_failing(services, name, "start")


async def test_checks_of_a_database_that_is_away_are_logged_once(
    settings_with: Callable[..., Settings], short_start: None
) -> None:
    with capture_logs() as logs:
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            open_services(settings_with(redis_url="redis://127.0.0.1:1/0")) as services,
        ):
            answers = Counter[str | None]()
            while answers["unreachable"] < 10:
                # On a busy machine a check may time out before the connection is refused.
                answers[(await services.check())["redis"]] += 1
                assert not answers[None]
    assert [line["event"] for line in logs].count("database_unreachable") == 1


async def test_services_stop_if_a_driver_turns_a_cancellation_into_an_error(
    settings: Settings, short_start: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancellations: list[asyncio.CancelledError] = []

    async def never_open(_: Deployment) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            if cancellations:
                raise
            cancellations.append(cancelled)
            raise Unreachable("as PyMongo does while MongoDB is unreachable") from None

    monkeypatch.setattr(Deployment, "open", never_open)
    async with asyncio.timeout(TIMEOUT_SECONDS), open_services(settings):
        pass
    assert cancellations


async def test_process_is_ready_after_scripts_and_indexes_exist(
    settings: Settings, short_start: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    leasing, gate, lease = asyncio.Event(), asyncio.Event(), WorkerNumbers.lease

    async def late_lease(self: WorkerNumbers, *args: Any) -> None:
        leasing.set()
        await gate.wait()
        await lease(self, *args)

    monkeypatch.setattr(WorkerNumbers, "lease", late_lease)
    async with asyncio.timeout(TIMEOUT_SECONDS), open_services(settings) as services:
        await leasing.wait()
        await until_failing(services, "start")
        cache = services.app.store.cache
        await cache.one(Call("SCRIPT", (), ("FLUSH",)))
        gate.set()
        await services.opened.wait()
        await until_failing(services)
        digests = [script.digest for script in read_scripts().values()]
        assert await cache.one(Call("SCRIPT", (), ("EXISTS", *digests))) == [1] * len(digests)
        indexes = await services.app.store.mongo._database["messages"].index_information()
        assert any(index.get("unique") for index in indexes.values())
