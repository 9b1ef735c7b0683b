"""Fixtures: processes that may send events to loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from resolvers.base.times import iso_text_or_none
from store.redis.cache import Call
from tests.api.client import Api
from tests.api.conftest import OpenApi, deployments, open_api
from tests.clock import DAY_MS, ManualClock
from tests.waiting import TIMEOUT_SECONDS, wait_for
from tests.webhooks.calls import DELETE, LIST, admin
from tests.webhooks.endpoint import Endpoint, open_endpoint

__all__ = ["deployments", "open_api"]


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("main", allow_loopback=True) as api:
        yield api


@pytest.fixture
async def api(process: Api) -> AsyncIterator[Api]:
    """The module's process. The webhooks of the deployment end with the test."""
    yield process
    await process.wait_until_idle()
    await process.stop_subscriptions()
    await _delete_webhooks(process)


async def settle(api: Api, waiting: int = 0) -> None:
    """Write all noted events to the log, and wait until everything that is due was tried.

    waiting: number of notes that stay: they wait for an earlier message, or for a server of a later version.
    """
    await api.wait_until_idle()
    parts, store = api.services.webhooks, api.services.app.store
    async with asyncio.timeout(TIMEOUT_SECONDS):
        # Some events wait until the writer knows that no earlier one is missing.
        while await parts.writer.write() or await store.webhook_notes.count() > waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while True:
            await parts.worker.deliver_due()
            await wait_for(lambda: parts.worker.running == 0)
            # A delivery that has just ended may have begun before the newest events were written.
            known = list(store.webhook_registry.webhooks)
            if not await store.webhook_deliveries.list_free(known, store.clock.now_ms()):
                return


@asynccontextmanager
async def no_sweeps(api: Api) -> AsyncIterator[None]:
    """Keep servers from finishing messages in the outboxes, which they do after 5 s. The test holds the lock for it."""
    cache, lock = api.services.app.store.cache, api.services.app.store.keys.sweeper_lock
    await cache.one(Call("SET", (lock,), ("test",)))
    try:
        yield
    finally:
        await cache.one(Call("DEL", (lock,)))


@dataclass
class ClockedApi:
    """A process whose time moves only when a test says so."""

    api: Api
    clock: ManualClock

    async def advance(self, seconds: float) -> None:
        """Move the time, and let the process look for due events."""
        await self.api.advance_days(self.clock, seconds * 1000 / DAY_MS)
        self.api.services.webhooks.worker.wake()

    async def settle(self) -> None:
        """Write all noted events to the log, and wait until everything that is due was tried."""
        await settle(self.api)

    def iso_now(self) -> str:
        """Return the time of the clock as the API writes it."""
        return str(iso_text_or_none(self.clock.now_ms()))


@pytest.fixture(scope="module")
async def _clocked_process(open_api: OpenApi) -> AsyncIterator[ClockedApi]:
    clock = ManualClock()
    async with open_api("clocked", clock, allow_loopback=True) as api:
        yield ClockedApi(api, clock)


@pytest.fixture
async def clocked(_clocked_process: ClockedApi) -> AsyncIterator[ClockedApi]:
    """The module's process with a manual clock. The webhooks of the deployment end with the test."""
    yield _clocked_process
    await _delete_webhooks(_clocked_process.api)


async def _delete_webhooks(api: Api) -> None:
    for webhook in (await api.data(admin(), LIST))["webhooks"]:
        await api.data(admin(), DELETE, id=webhook["id"])


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with open_endpoint() as opened:
        yield opened
