"""A process whose clock moves only when a test sets it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.conftest import OpenApi
from tests.api.devices.calls import TimedDevices
from tests.clock import ManualClock


@pytest.fixture(scope="module")
async def _timed_process(open_api: OpenApi) -> AsyncIterator[TimedDevices]:
    clock = ManualClock()
    async with open_api("timed", clock) as api:
        yield TimedDevices(api, clock)


@pytest.fixture
async def timed(_timed_process: TimedDevices) -> TimedDevices:
    return _timed_process
