"""Three processes of one deployment, with a clock that tests set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.api.channels.calls import Made, make_workspace
from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.clock import ManualClock

NAME = "retention"


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def processes(open_api: OpenApi, clock: ManualClock) -> AsyncIterator[list[Api]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_api(NAME, clock, retention_days=30)) for _ in range(3)]


@pytest.fixture
async def api(processes: list[Api]) -> AsyncIterator[Api]:
    yield processes[0]
    for each in processes:
        await each.wait_until_idle()
        await each.stop_subscriptions()


@pytest.fixture
async def made(api: Api) -> Made:
    return await make_workspace(api)
