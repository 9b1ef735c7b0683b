"""The lease of the worker number is renewed in time, however busy the process is."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace

import pytest
from pymongo.server_selectors import writable_server_selector

from store.base.errors import Unreachable
from store.deployment.worker_numbers import VALID_MS
from store.mongo.client import Mongo
from subscriptions.delivery import housekeeping
from tests.api.client import Api

_POOL_SIZE = 100
_STEP_SECONDS = 0.02

_MAX_STEPS = 60
"""Steps of the event loop within which a renewal ends. A renewal has 25 s, so each step may take 0.4 s."""


@asynccontextmanager
async def all_connections_taken(mongo: Mongo) -> AsyncIterator[None]:
    """Hold every connection of the driver's pool, as operations would that wait for MongoDB."""
    async with AsyncExitStack() as stack:
        topology = await mongo._client._get_topology()
        server = await topology.select_server(writable_server_selector, "test")
        for _ in range(_POOL_SIZE):
            await stack.enter_async_context(server.pool.checkout())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await mongo.ping()
        yield


async def count_busy_steps(work: Awaitable[None]) -> int:
    """Return the steps of the event loop that work takes while each step is long."""
    task, steps = asyncio.ensure_future(work), 0
    while not task.done():
        time.sleep(_STEP_SECONDS)  # noqa: ASYNC251
        steps += 1
        await asyncio.sleep(0)
    await task
    return steps


async def test_a_renewal_needs_no_connection_that_operations_hold(api: Api) -> None:
    store = api.services.app.store
    async with all_connections_taken(store.mongo):
        store.ids.valid_until_ms -= VALID_MS // 2
        before = store.ids.valid_until_ms
        await api.services.housekeeper._lease()
        assert store.ids.valid_until_ms > before + VALID_MS // 4


async def test_a_renewal_takes_few_steps_of_a_busy_event_loop(api: Api) -> None:
    # The smallest of three counts: during a pause of MongoDB, the event loop makes many more steps.
    assert min([await count_busy_steps(api.services.housekeeper._lease()) for _ in range(3)]) < _MAX_STEPS


async def test_a_renewal_that_failed_is_tried_again_soon(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    # It stops by itself, while the one of the process goes on.
    housekeeper = copy.copy(api.services.housekeeper)
    slept: list[float] = []
    attempts = 0

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def renew() -> None:
        nonlocal attempts
        attempts += 1
        housekeeper._closing = attempts == 4
        if attempts in (2, 3):
            raise Unreachable("no connection")

    monkeypatch.setattr(housekeeping, "asyncio", SimpleNamespace(sleep=sleep))
    await housekeeper._repeat(housekeeping._LEASE_SECONDS, "lease", renew)
    assert slept == [15, 15, 2, 2]
