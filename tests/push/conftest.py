"""Fixtures: a process with a push service, which works only when a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from store.devices.device import PushPlatform
from tests.api.client import Api
from tests.api.conftest import OpenApi, deployments, open_api
from tests.clock import ManualClock
from tests.push.pushing import Pushing
from tests.push.recording import RecordingService

__all__ = ["deployments", "open_api"]


@pytest.fixture(scope="module")
def services() -> dict[PushPlatform, RecordingService]:
    return {platform: RecordingService() for platform in (PushPlatform.FCM, PushPlatform.APNS)}


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def process(
    open_api: OpenApi, clock: ManualClock, services: dict[PushPlatform, RecordingService]
) -> AsyncIterator[Api]:
    async with open_api("main", clock, push_services=services, workers=False) as api:
        yield api


@pytest.fixture
async def pushing(
    process: Api, clock: ManualClock, services: dict[PushPlatform, RecordingService]
) -> AsyncIterator[Pushing]:
    """The module's process. A test begins with an empty record of pushes, and nothing to do."""
    pushing = Pushing(process, clock, services)
    for service in services.values():
        service.pushes.clear()
        service.answers.clear()
    yield pushing
    await pushing.pass_time(700)
    await process.stop_subscriptions()
