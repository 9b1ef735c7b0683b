"""A process that does jobs only when a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.clock import ManualClock


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def process(open_api: OpenApi, clock: ManualClock) -> AsyncIterator[Api]:
    async with open_api("main", clock, workers=False) as api:
        yield api
