"""The members of a workspace who are shown online: their number, and the list that begins with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.presence.presence_record import DeviceType, PresenceSetting
from store.redis.cache import Call
from subscriptions.presence.connected_devices import DeviceConnection, GivenDevice
from tests.api.client import Api, Refusal, wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.api.devices.calls import is_hidden
from tests.api.workspaces.calls import MEMBERS, add_members, create_workspace, member_ids
from tests.clock import ManualClock

COUNT = "query ($id: ID!) { workspace(id: $id) { onlineCount } }"
LEAVE = "mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }"
JOIN = "mutation ($id: ID!) { joinWorkspace(workspaceId: $id) { id } }"


async def until(check: Callable[[], bool]) -> None:
    """Wait until a check returns true."""

    async def is_true() -> bool:
        return check()

    await wait_until(is_true)


class Servers:
    """Two servers with one clock."""

    def __init__(self, clock: ManualClock, *apis: Api) -> None:
        self.clock = clock
        self.apis = apis

    def connect(self, server: int, user: str, device: str | None = None) -> DeviceConnection:
        """Connect a device of a user to a server."""
        devices = self.apis[server].services.app.devices
        return devices.connect(UserId(user), GivenDevice(device, DeviceType.WEB), lambda: None)

    async def settle(self, seconds: float = 0) -> None:
        """Let time pass, and everything be written that is due."""
        self.clock.ms += round(seconds * 1000)
        # Each server reads the first report of the others.
        for api in (*self.apis, *self.apis):
            await api.services.app.live_servers.report()
        for api in self.apis:
            app = api.services.app
            await app.devices.check()
            await until(lambda writer=app.devices._writer: writer._task is None)
            await app.online.write()

    async def expect(self, workspace: str, *users: str) -> None:
        """Wait until the users are listed as online, and no others, without any time passing."""

        async def is_listed() -> bool:
            await self.settle()
            return await self.apis[0].services.app.online.list_first(WorkspaceId(workspace)) == sorted(users)

        await wait_until(is_listed)

    async def count(self, user: str, workspace: str, server: int = 0) -> int:
        """Return the number that a user sees, after the time for which numbers are used again."""
        await self.settle(11)
        found = (await self.apis[server].data(user, COUNT, id=workspace))["workspace"]["onlineCount"]
        assert isinstance(found, int)
        return found


@pytest.fixture
async def servers(open_api: OpenApi, request: pytest.FixtureRequest) -> AsyncIterator[Servers]:
    clock, name = ManualClock(), f"online {request.node.name}"
    async with open_api(name, clock) as first, open_api(name, clock) as second:
        yield Servers(clock, first, second)


@pytest.fixture
async def members(servers: Servers) -> tuple[str, list[str]]:
    """A workspace, and its members in the order of their names; the first is the owner."""
    api = servers.apis[0]
    users = await api.create_users("ann", "ben", "cem", "dea")
    workspace = await create_workspace(api, users[0], isOpen=True)
    await add_members(api, workspace, *users[1:])
    return workspace, users


async def test_a_member_counts_once_however_many_devices_and_servers_there_are(
    servers: Servers, members: tuple[str, list[str]]
) -> None:
    workspace, (ann, ben, cem, _) = members
    assert await servers.count(ann, workspace) == 0
    servers.connect(0, ben, "phone")
    servers.connect(0, ben, "laptop")
    servers.connect(1, ben, "tablet")
    servers.connect(1, cem)
    assert [await servers.count(ann, workspace, server) for server in (0, 1)] == [2, 2]


async def test_a_departure_counts_15_seconds_later_and_a_reconnect_never(
    servers: Servers, members: tuple[str, list[str]]
) -> None:
    workspace, (ann, ben, cem, _) = members
    connections = [servers.connect(0, ben, "phone"), servers.connect(1, cem, "phone")]
    assert await servers.count(ann, workspace) == 2
    for connection in connections:
        connection.end()
    await servers.settle(14)
    assert await servers.apis[0].services.app.online.list_first(workspace) == [ben, cem]
    servers.connect(0, cem, "phone")
    await servers.settle(1)
    assert await servers.apis[0].services.app.online.list_first(workspace) == [cem]
    assert await servers.count(ann, workspace) == 1


async def test_an_invisible_member_stops_counting_as_one_who_departs(
    servers: Servers, members: tuple[str, list[str]]
) -> None:
    workspace, (ann, ben, cem, _) = members
    for server in (0, 1):
        servers.connect(server, ben, f"device {server}")
    departing = servers.connect(0, cem)
    await servers.settle(1)
    # On another server than one of the devices.
    app = servers.apis[1].services.app
    change = await app.store.presence.set_presence(UserId(ben), PresenceSetting.INVISIBLE, None)
    app.devices.announce([change])
    departing.end()
    await until(lambda: all(is_hidden(api.services.app, UserId(ben)) for api in servers.apis))
    for seconds, shown in ((0, [ben, cem]), (14, [ben, cem]), (1, [])):
        await servers.settle(seconds)
        assert await app.online.list_first(workspace) == shown
    assert await servers.count(ann, workspace) == 0
    servers.connect(0, ben, "another device")
    assert await servers.count(ann, workspace) == 0
    change = await app.store.presence.set_presence(UserId(ben), PresenceSetting.ONLINE, None)
    app.devices.announce([change])
    await until(lambda: not any(is_hidden(api.services.app, UserId(ben)) for api in servers.apis))
    assert await servers.count(ann, workspace) == 1


async def test_joining_and_leaving_count_at_once(servers: Servers, members: tuple[str, list[str]]) -> None:
    workspace, (ann, ben, *_) = members
    api = servers.apis[0]
    (eve,) = await api.create_users("eve")
    for user in (ben, eve):
        servers.connect(1, user)
    assert await servers.count(ann, workspace) == 1
    await api.data(eve, JOIN, id=workspace)
    await servers.expect(workspace, ben, eve)
    assert await servers.count(ann, workspace) == 2
    await api.data(ben, LEAVE, id=workspace)
    await servers.expect(workspace, eve)


async def test_nobody_but_members_learns_the_number(servers: Servers, members: tuple[str, list[str]]) -> None:
    workspace, (_, ben, *_) = members
    (stranger,) = await servers.apis[0].create_users("stranger")
    servers.connect(0, ben)
    servers.connect(0, stranger)
    assert await servers.count(stranger, workspace) == 0
    assert await servers.count(ben, workspace) == 1


async def test_the_devices_of_a_server_that_ended_stop_counting(
    servers: Servers, members: tuple[str, list[str]]
) -> None:
    workspace, (ann, ben, *_) = members
    servers.connect(1, ben)
    assert await servers.count(ann, workspace) == 1
    first, second = (api.services.app for api in servers.apis)
    await second.live_servers.close()
    for seconds, shown in ((0, [ben]), (14, [ben]), (1, [])):
        servers.clock.ms += seconds * 1000
        await first.live_servers.report()
        assert await first.online.list_first(workspace) == shown


async def test_lost_sets_are_written_again(
    servers: Servers, members: tuple[str, list[str]], deployments: Deployments, request: pytest.FixtureRequest
) -> None:
    workspace, (ann, ben, *_) = members
    servers.connect(0, ben)
    assert await servers.count(ann, workspace) == 1
    app = servers.apis[0].services.app
    key = app.store.keys.of_clock(workspace, f"online:{app.hub.server}")
    await app.store.cache.one(Call("DEL", (key,)))
    assert await servers.count(ann, workspace) == 0
    await app.online.extend()
    assert await servers.count(ann, workspace) == 1
    deployments.flush_redis(f"online {request.node.name}")
    for api in servers.apis:
        await api.services.housekeeper.check_redis()
    assert await servers.count(ann, workspace) == 1


@pytest.mark.parametrize("page", [1, 2, 3, 100])
async def test_those_online_come_first_then_the_others_by_name(
    servers: Servers, members: tuple[str, list[str]], page: int
) -> None:
    workspace, (ann, ben, cem, dea) = members
    api = servers.apis[0]
    servers.connect(0, dea)
    servers.connect(1, cem)
    await servers.settle()
    assert await member_ids(api, ann, workspace, page, online=True) == [cem, dea, ann, ben]
    assert await member_ids(api, ann, workspace, page) == [ann, ben, cem, dea]
    assert await member_ids(api, ann, workspace, page, online=True, query="dea") == [dea]
    assert await member_ids(api, ann, workspace, page, online=True, query="ann") == [ann]


async def test_a_cursor_of_the_other_order_is_refused(servers: Servers, members: tuple[str, list[str]]) -> None:
    workspace, (ann, *_) = members
    api = servers.apis[0]
    for online in (True, False):
        found = await api.data(ann, MEMBERS, id=workspace, first=1, online=online)
        cursor = found["workspace"]["members"]["pageInfo"]["endCursor"]
        refusal = await api.expect_refusal(ann, MEMBERS, id=workspace, after=cursor, online=not online)
        assert refusal == Refusal("INVALID_INPUT", "after")


async def test_large_numbers_are_estimated(servers: Servers) -> None:
    app = servers.apis[0].services.app
    workspace = WorkspaceId("w_large")
    users = [UserId(f"user{number:05}") for number in range(12_000)]
    for server, part in (("s1", users[:8_000]), ("s2", users[4_000:])):
        await app.store.online_members.change(server, {workspace: part}, {})
    assert abs(await app.store.online_members.count(workspace, ["s1", "s2", "s3"]) - 12_000) < 1_000
    assert await app.store.online_members.count(workspace, ["s1"]) == 8_000
