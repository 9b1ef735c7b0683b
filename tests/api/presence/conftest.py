"""A process whose clock moves only when a test sets it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from schema.base.scalars import write_datetime
from store.base.ids import UserId
from store.presence.presence_record import Activity, DevicePresence, DeviceType
from store.presence.presence_store import DeviceChange
from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.clock import DAY_MS, ManualClock


@dataclass
class TimedApi:
    """A process, its clock, and the devices of its users."""

    api: Api
    clock: ManualClock

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock."""
        await self.api.advance_days(self.clock, seconds * 1_000 / DAY_MS)

    def at(self, seconds: float = 0) -> str:
        """Return the time some seconds from now as DateTime."""
        return write_datetime(self.clock.ms + round(seconds * 1_000))

    def minute(self) -> str:
        """Return the present minute as DateTime."""
        return write_datetime(self.clock.ms - self.clock.ms % 60_000)

    async def connect(
        self,
        user: str,
        device: str = "phone",
        type: DeviceType = DeviceType.WEB,
        *,
        is_idle: bool = False,
        is_gone: bool = False,
        activities: tuple[Activity, ...] = (),
    ) -> None:
        """Write the state of a device of this process, as its connection does."""
        app, now = self.api.services.app, self.clock.ms
        state = DevicePresence(
            app.hub.server, device, type, now, now if is_idle else None, now if is_gone else None, activities
        )
        app.presence.publish(
            await app.store.presence.change_devices([DeviceChange(UserId(user), app.hub.server, [state])])
        )


@pytest.fixture(scope="module")
async def _timed_process(open_api: OpenApi) -> AsyncIterator[TimedApi]:
    clock = ManualClock()
    async with open_api("timed", clock) as api:
        yield TimedApi(api, clock)


@pytest.fixture
async def timed(_timed_process: TimedApi) -> AsyncIterator[TimedApi]:
    yield _timed_process
    await _timed_process.api.wait_until_idle()
    await _timed_process.api.stop_subscriptions()
