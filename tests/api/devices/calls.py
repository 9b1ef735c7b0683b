"""Calls about devices, and the connections of devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from resolvers.base.app import Confab
from store.base.ids import UserId
from store.presence.presence_record import DevicePresence, DeviceType, PresenceRecord
from subscriptions.presence.connected_devices import DeviceConnection, GivenDevice
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, RequestRefused
from tests.api.client import TIMEOUT_SECONDS, Api, Json, make_caller
from tests.clock import DAY_MS, ManualClock

DEVICE = "id type name pushPlatform lastSeenAt isCurrent"
DEVICES = f"{{ devices {{ {DEVICE} }} }}"
REGISTER = f"mutation ($input: DeviceInput!) {{ registerDevice(input: $input) {{ {DEVICE} }} }}"
REMOVE = "mutation ($id: ID!) { removeDevice(deviceId: $id) }"
NODE = f"query ($id: ID!) {{ node(id: $id) {{ id ... on Device {{ {DEVICE} }} }} }}"


async def list_devices(api: Api, user: str) -> list[Json]:
    devices: list[Json] = (await api.data(user, DEVICES))["devices"]
    return devices


async def register(api: Api, user: str, id: str | None, **fields: Any) -> Json:
    device: Json = (await api.data(user, REGISTER, input={"id": id, "type": "WEB"} | fields))["registerDevice"]
    return device


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Line:
    """A connection of a device, as the transport has it."""

    def __init__(self, api: Api, user: str, id: str | None = None, type: DeviceType = DeviceType.WEB) -> None:
        self._api = api
        self.user = user
        self.caller: object | None = make_caller(user)
        self.closed = 0
        self.device: DeviceConnection = api.services.app.devices.connect(
            UserId(user), GivenDevice(id, type), self._close
        )

    def _close(self) -> None:
        self.closed += 1
        self.device.end()

    async def authenticate_token(self, token: str) -> object:
        raise NotImplementedError

    def next_renewal_number(self) -> int:
        return 1

    def renew(self, expires_at: float | None, caller: object | None, number: int | None = None) -> bool:
        return False

    async def run(self, query: str, **variables: Any) -> Json:
        """Return the response to an operation over the connection."""
        request, engine = GraphQLRequest(query, variables or None), self._api.services.engine
        try:
            prepared = await engine.prepare(request, self.caller)
            if prepared.kind == "mutation":
                self.device.note_use(prepared.root)
            response = await engine.execute(prepared, request, ConnectionContext(self.caller, "test", self))
        except RequestRefused as refused:
            response = {"errors": refused.errors}
        decoded: Json = orjson.loads(orjson.dumps(response))
        return decoded

    async def data(self, query: str, **variables: Any) -> Json:
        response = await self.run(query, **variables)
        assert "errors" not in response, response
        data: Json = response["data"]
        return data


@dataclass
class TimedDevices:
    """A process, and its clock."""

    api: Api
    clock: ManualClock

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock, and let the process look at its devices.

        After a long time, as after a pause, the process writes its devices with its next reports. They are made here.
        """
        app: Any = self.api.services.app
        await self.api.advance_days(self.clock, seconds * 1_000 / DAY_MS)
        await app.live_servers.report()
        while app.live_servers._returning:
            await app.live_servers.report()
        await app.devices.check()


async def read_record(api: Api, user: str) -> PresenceRecord:
    """Return the record of a user, once this process has written all of its devices."""
    devices: Any = api.services.app.devices
    await until(lambda: devices._writer._task is None)
    return (await api.services.app.store.presence.read([UserId(user)]))[UserId(user)]


async def read_devices(api: Api, user: str) -> dict[str, DevicePresence]:
    """Return the devices in the record of a user, by id."""
    return {device.device: device for device in (await read_record(api, user)).devices}


async def wait_for_rows(api: Api) -> None:
    """Wait until the rows of this process's devices are written."""
    devices: Any = api.services.app.devices
    await until(lambda: devices._rows._task is None)


def is_hidden(app: Confab, user: UserId) -> bool:
    """Return whether a user is INVISIBLE as far as a process knows, or no record was read yet."""
    record = app.devices.own_record(user)
    return record is None or record.setting.is_hidden_at(app.store.clock.now_ms())
