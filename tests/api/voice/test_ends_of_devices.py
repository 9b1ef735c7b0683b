"""Voice states whose devices are gone: nobody is shown longer than 45 s."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import pytest

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from subscriptions.presence.connected_devices import GivenDevice
from tests.api.client import Api, Refusal, wait_until
from tests.api.conftest import OpenApi
from tests.api.voice.calls import UPDATE, Device, VoiceWorkspace, make_voice_workspace, next_voice
from tests.clock import ManualClock

STEP_MS = 2_000
REMOVE = "mutation ($id: ID!) { removeDevice(deviceId: $id) }"


class Servers:
    """Two servers with one clock. A third one can be opened, and killed."""

    def __init__(self, clock: ManualClock, *apis: Api) -> None:
        self.clock = clock
        self.apis = list(apis)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass as it does for servers: they report, compare and check all the time."""
        for _ in range(round(seconds * 1000 / STEP_MS)):
            self.clock.ms += STEP_MS
            await self.work()

    async def work(self) -> None:
        for api in self.apis:
            housekeeper = api.services.housekeeper
            await housekeeper._lease()
            await api.services.app.live_servers.report()
            await api.services.app.voice_devices.renew()
            await housekeeper._voice_checks.check()


@pytest.fixture(scope="module")
async def servers(open_api: OpenApi) -> AsyncIterator[Servers]:
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        apis = [await stack.enter_async_context(open_api("clocked", clock)) for _ in range(2)]
        yield Servers(clock, *apis)


@pytest.fixture
async def lounge(servers: Servers) -> VoiceWorkspace:
    await servers.work()
    return await make_voice_workspace(servers.apis[0])


async def test_a_closed_connection_ends_the_state_after_40_to_45_s(servers: Servers, lounge: VoiceWorkspace) -> None:
    device = Device(servers.apis[1], lounge.member)
    joined = await device.join(lounge.lounge)
    listener, _ = await lounge.listen(lounge.owner)
    device.disconnect()
    await servers.work()
    await servers.pass_time(38)
    assert await lounge.states(lounge.lounge) == [joined]
    await servers.pass_time(6)
    left = await next_voice(listener)
    assert (left["left"], left["state"]) == (True, joined)
    assert await lounge.states(lounge.lounge) == []


async def test_a_peer_that_was_silent_before_has_less_time(servers: Servers, lounge: VoiceWorkspace) -> None:
    device = Device(servers.apis[1], lounge.member)
    await device.join(lounge.lounge)
    device.device.end(41_000)
    await servers.work()
    await servers.pass_time(4)
    assert await lounge.states(lounge.lounge) == []


@pytest.mark.parametrize("server", [0, 1])
async def test_a_device_that_comes_back_keeps_its_state(servers: Servers, lounge: VoiceWorkspace, server: int) -> None:
    device = Device(servers.apis[1], lounge.member)
    joined = await device.join(lounge.lounge)
    listener, _ = await lounge.listen(lounge.owner)
    device.disconnect()
    await servers.work()
    await servers.pass_time(30)
    device.connect(servers.apis[server])
    await servers.work()
    await servers.pass_time(100)
    assert await lounge.states(lounge.lounge) == [joined]
    await listener.expect_no_event()
    await device.update(mute=True)
    await device.leave()


async def test_a_device_may_come_back_before_its_old_connection_is_dead(
    servers: Servers, lounge: VoiceWorkspace
) -> None:
    old = Device(servers.apis[0], lounge.member, "phone")
    joined = await old.join(lounge.lounge)
    new = Device(servers.apis[1], lounge.member, "phone")
    await servers.work()
    await servers.pass_time(20)
    old.device.end(41_000)
    await servers.work()
    await servers.pass_time(60)
    assert await lounge.states(lounge.lounge) == [joined]
    new.disconnect()
    await servers.work()
    await servers.pass_time(45)
    assert await lounge.states(lounge.lounge) == []


async def test_one_of_two_connections_keeps_the_state(servers: Servers, lounge: VoiceWorkspace) -> None:
    first = Device(servers.apis[0], lounge.member, "tablet")
    joined = await first.join(lounge.lounge)
    second = Device(servers.apis[1], lounge.member, "tablet")
    await servers.work()
    second.disconnect()
    await servers.work()
    await servers.pass_time(60)
    assert await lounge.states(lounge.lounge) == [joined]
    assert (await first.update(mute=True))["selfMute"] is True


async def test_a_killed_server_ends_the_states_of_its_devices(
    servers: Servers, lounge: VoiceWorkspace, open_api: OpenApi
) -> None:
    async with open_api("clocked", servers.clock) as third:
        gone, back = Device(third, lounge.member), Device(third, lounge.owner)
        states = [await gone.join(lounge.lounge), await back.join(lounge.lounge)]
        await third.services.app.live_servers.report()
        # From here on it does nothing any more.
        third.services.app.live_servers._is_closed = True
        third.services.app.voice_devices._joined.clear()
        third.services.app.voice_devices._arriving.clear()
        await servers.pass_time(34)
        assert await lounge.states(lounge.lounge) == states
        back.connect(servers.apis[1])
        await servers.work()
        await servers.pass_time(12)
        assert await lounge.states(lounge.lounge) == states[1:]
        await servers.pass_time(60)
        assert await lounge.states(lounge.lounge) == states[1:]


async def test_a_server_that_stops_leaves_its_devices_time_to_come_back(
    servers: Servers, lounge: VoiceWorkspace, open_api: OpenApi
) -> None:
    async with open_api("clocked", servers.clock) as third:
        device, other = Device(third, lounge.member), Device(third, lounge.owner)
        joined, _ = await device.join(lounge.lounge), await other.join(lounge.lounge)
    await servers.pass_time(30)
    device.connect(servers.apis[0])
    await servers.work()
    await servers.pass_time(30)
    assert await lounge.states(lounge.lounge) == [joined]


async def test_no_voice_state_ends_while_servers_cannot_read_each_other(
    servers: Servers, lounge: VoiceWorkspace
) -> None:
    device = Device(servers.apis[1], lounge.member)
    joined = await device.join(lounge.lounge)
    # Redis was away for all servers.
    servers.clock.ms += 120_000
    await servers.work()
    await servers.pass_time(20)
    assert await lounge.states(lounge.lounge) == [joined]


async def test_a_removed_device_leaves_at_once(servers: Servers, lounge: VoiceWorkspace) -> None:
    device = Device(servers.apis[1], lounge.member)
    await device.join(lounge.lounge)

    async def is_removed() -> bool:
        # Its row is made in the background.
        answer = await lounge.api.run(lounge.member, REMOVE, id=device.id)
        return "errors" not in answer

    await wait_until(is_removed)
    assert await lounge.states(lounge.lounge) == []


async def test_the_end_of_a_removed_connection_is_not_that_of_a_later_one(
    servers: Servers, lounge: VoiceWorkspace
) -> None:
    api = servers.apis[1]
    devices = api.services.app.devices
    # A connection whose mutations still run when its device is removed.
    first = devices.connect(UserId(lounge.member), GivenDevice("phone"), lambda: None)
    await devices.remove(UserId(lounge.member), "phone")
    second = Device(api, lounge.member, "phone")
    joined = await second.join(lounge.lounge)
    first.end()
    await servers.pass_time(60)
    assert await lounge.states(lounge.lounge) == [joined]


async def test_states_end_while_rights_in_another_workspace_cannot_be_judged(
    servers: Servers, lounge: VoiceWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspaces = [lounge, *[await make_voice_workspace(servers.apis[0]) for _ in range(4)]]
    # Those that are due at the same time are checked in this order.
    *others, last = sorted(workspaces, key=lambda workspace: workspace.id)
    devices = [Device(servers.apis[0], workspace.member) for workspace in (*others, last)]
    for workspace, device in zip((*others, last), devices, strict=True):
        await device.join(workspace.lounge)
        # As if the server that changed rights had died.
        await servers.apis[0].services.app.store.voice.note_judged(WorkspaceId(workspace.id), 0)
    devices[-1].disconnect()

    async def fail(*_: object) -> None:
        raise Unreachable("MongoDB is away")

    with monkeypatch.context() as patch:
        for api in servers.apis:
            patch.setattr(api.services.app.voice, "judge", fail)
        for _ in range(24):
            servers.clock.ms += STEP_MS
            for api in servers.apis:
                await api.services.housekeeper._lease()
                await api.services.app.live_servers.report()
                await api.services.app.voice_devices.renew()
                with suppress(Unreachable):
                    await api.services.housekeeper._voice_checks.check()
    assert [await workspace.users(workspace.lounge) for workspace in others] == [[each.member] for each in others]
    assert await last.users(last.lounge) == []


async def test_an_end_that_redis_missed_is_repeated(
    servers: Servers, lounge: VoiceWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(servers.apis[1], lounge.member)
    await device.join(lounge.lounge)
    await servers.work()
    with monkeypatch.context() as patch:
        patch.setattr(servers.apis[0].services.housekeeper._voice_checks, "check", _do_nothing)
        patch.setattr(servers.apis[1].services.app.voice_devices, "renew", _do_nothing)
        device.disconnect()
        await servers.pass_time(20)
    await servers.pass_time(26)
    assert await lounge.states(lounge.lounge) == []
    assert await device.refused(UPDATE) == Refusal("NOT_FOUND")


async def _do_nothing() -> None:
    pass
