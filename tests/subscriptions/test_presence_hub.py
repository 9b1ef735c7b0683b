"""Presence as one process shows it follows the records of users, the servers, and the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import pytest
from redis import Redis

from server.services import Services, open_services
from server.settings import Settings
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.presence.presence_record import CustomStatus, DevicePresence, DeviceType, PresenceRecord, PresenceSetting
from store.presence.presence_store import DeviceChange
from subscriptions.presence.connected_devices import GivenDevice
from subscriptions.presence.presence_hub import PresenceHub
from subscriptions.presence.presence_watch import PresenceState, PresenceWatch
from tests.clock import ManualClock
from tests.conftest import of_one_redis, send_to_redis
from tests.waiting import wait_for

ANN, BEN = UserId("ann"), UserId("ben")


class Server:
    """One server, and the devices that are connected to it."""

    def __init__(self, services: Services, clock: ManualClock) -> None:
        self.services = services
        self.app = services.app
        self.hub: PresenceHub = services.app.presence
        self.name = services.app.hub.server
        self.clock = clock

    def device(self, device: str = "web", **more: Any) -> DevicePresence:
        fields = {"type": DeviceType.WEB, "since_ms": self.clock.ms} | more
        return DevicePresence(self.name, device, **fields)

    async def put(self, *users: UserId, device: str = "web", **more: Any) -> None:
        """Write a device of each user, and send the changes."""
        state = (self.device(device, **more),)
        changes = [DeviceChange(user, self.name, state) for user in users]
        self.hub.publish(await self.app.store.presence.change_devices(changes))

    async def end(self, *users: UserId, device: str = "web") -> None:
        await self.put(*users, device=device, gone_at_ms=self.clock.ms)

    async def set(self, user: UserId, value: PresenceSetting) -> None:
        self.hub.publish([await self.app.store.presence.set_presence(user, value, None)])

    def record(self, user: UserId) -> PresenceRecord:
        watched = self.hub.users.find(user)
        assert watched is not None
        assert watched.record is not None
        return watched.record

    def status(self, user: UserId) -> str:
        watched = self.hub.users.find(user)
        assert watched is not None
        assert watched.state is not None
        return watched.state.shown.status.value

    async def move_clock(self, ms: int) -> None:
        """Let time pass, while this server reads which servers are alive."""
        for _ in range(ms // 1_000):
            self.clock.ms += 1_000
            if self.clock.ms % 5_000 == 0:
                await self.app.live_servers.report()
        self.hub.users.derive_soon()
        await wait_for(lambda: self.hub.users._task is None)


class Screen:
    """A subscription that keeps what it gets."""

    def __init__(self, hub: PresenceHub) -> None:
        self.states: list[PresenceState] = []
        self.times: list[float] = []
        """When it received each state, by the clock of the event loop."""
        self.watch: PresenceWatch = hub.watch(self._take)

    def _take(self, state: PresenceState) -> None:
        self.states.append(state)
        self.times.append(asyncio.get_running_loop().time())

    @property
    def statuses(self) -> list[str]:
        return [state.shown.status.value for state in self.states]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def servers(settings: Settings, clock: ManualClock) -> AsyncIterator[tuple[Server, Server]]:
    async with open_services(settings, clock) as one, open_services(settings, clock) as two:
        found = Server(one, clock), Server(two, clock)
        for server in found:
            server.hub.publisher.seconds_between = 0.0
            server.hub.users.event_seconds = 0.0
        yield found


async def test_a_departure_is_derived_at_its_time_without_another_frame(servers: tuple[Server, Server]) -> None:
    one, two = servers
    await two.put(ANN)
    # All servers get the first record of a user: it is not known who shows the user.
    await wait_for(lambda: two.hub.publisher.frames == 1)
    screen = Screen(one.hub)
    states = await screen.watch.add([ANN])
    assert states[ANN].shown.status.value == "ONLINE"
    await two.end(ANN)
    await wait_for(lambda: two.hub.publisher.frames == 2)
    await wait_for(lambda: one.hub.users.find(ANN).changes_at_ms is not None)  # type: ignore[union-attr]
    await one.move_clock(14_000)
    assert screen.states == []
    await one.move_clock(1_000)
    assert screen.statuses == ["OFFLINE"]
    assert two.hub.publisher.frames == 2


async def test_only_devices_of_a_server_that_was_killed_depart(servers: tuple[Server, Server]) -> None:
    one, two = servers
    await one.put(BEN)
    await two.put(ANN)
    screen = Screen(one.hub)
    await screen.watch.add([ANN, BEN])
    await one.app.live_servers.report()
    await two.services.housekeeper.close()
    await one.move_clock(44_000)
    assert screen.statuses == []
    await one.move_clock(6_000)
    assert [(state.shown.user, state.shown.status.value) for state in screen.states] == [(ANN, "OFFLINE")]
    assert set(one.hub.users._by_server) == {one.name, two.name}


async def test_an_older_record_does_not_replace_a_newer_one(servers: tuple[Server, Server]) -> None:
    one, _ = servers
    await one.put(ANN)
    await Screen(one.hub).watch.add([ANN])
    newest = one.record(ANN)
    one.hub.users.receive(PresenceRecord(ANN, version=newest.version - 1))
    one.hub.users.receive(PresenceRecord(ANN, version=newest.version))
    assert one.record(ANN) is newest
    one.hub.users.receive(PresenceRecord(ANN, version=newest.version + 1))
    await wait_for(lambda: one.status(ANN) == "OFFLINE")


async def test_changes_during_an_interruption_of_the_bus_are_found(
    servers: tuple[Server, Server], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    screen = Screen(one.hub)
    await screen.watch.add([ANN])

    async def lose(kind: str, bodies: Mapping[str, Any]) -> None:
        """Lose the frames, as Redis does while nobody listens."""

    monkeypatch.setattr(two.app.bus, "publish_frames", lose)
    await two.put(ANN)
    await asyncio.sleep(0.05)
    assert screen.states == []
    send_to_redis(settings.redis_url, "CLIENT", "KILL", "TYPE", "pubsub")
    await wait_for(lambda: screen.statuses == ["ONLINE"])


@of_one_redis
async def test_nobody_is_shown_offline_while_devices_are_written_after_a_loss_of_redis(
    servers: tuple[Server, Server], settings: Settings
) -> None:
    one, two = servers
    await two.put(ANN, BEN)
    screen = Screen(one.hub)
    await screen.watch.add([ANN, BEN])
    lost = [one.record(user) for user in (ANN, BEN)]
    with Redis.from_url(settings.redis_url) as redis:
        redis.delete(*redis.scan_iter(match=f"{settings.redis_prefix}*", count=1_000))
    one.clock.ms += 1_000
    await one.services.housekeeper.check_redis()
    await two.services.housekeeper.check_redis()
    await wait_for(lambda: all(one.record(user) not in lost for user in (ANN, BEN)))
    await two.put(ANN)
    await one.move_clock(10_000)
    assert screen.states == []
    # A device that does not come back has departed at the time of the loss.
    await one.move_clock(5_000)
    assert [(state.shown.user, state.shown.status.value) for state in screen.states] == [(BEN, "OFFLINE")]
    await two.set(ANN, PresenceSetting.DND)
    await wait_for(lambda: screen.statuses == ["OFFLINE", "DND"])


async def test_a_frame_that_could_not_be_sent_is_sent_later(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    monkeypatch.setattr("subscriptions.presence.presence_publisher._RETRY_SECONDS", 0.05)
    screen = Screen(one.hub)
    await screen.watch.add([ANN])
    publish, failures = two.app.bus.publish_frames, 2

    async def fail(kind: str, bodies: Mapping[str, Any]) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise Unreachable("test")
        await publish(kind, bodies)

    monkeypatch.setattr(two.app.bus, "publish_frames", fail)
    await two.put(ANN)
    await two.set(ANN, PresenceSetting.DND)
    await wait_for(lambda: screen.statuses[-1:] == ["DND"])
    assert failures < 0


async def test_reads_of_watched_users_cost_no_round_trip(servers: tuple[Server, Server]) -> None:
    one, two = servers
    await two.put(ANN, BEN)
    await Screen(one.hub).watch.add([ANN])
    # The first read of a user loads the part that is in MongoDB.
    await one.hub.read([BEN])
    trips = one.app.store.cache.trips
    shown = await one.hub.read([ANN])
    assert one.app.store.cache.trips == trips
    assert shown[ANN].status.value == "ONLINE"
    both = await one.hub.read([ANN, BEN, ANN])
    assert both[BEN].status.value == "ONLINE"
    assert one.app.store.cache.trips == trips + 1
    assert one.hub.users.find(BEN) is None


async def test_watches_end_some_time_after_the_last_subscription(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    one.hub.unwatch_seconds = 0.2
    removed: list[Collection[UserId]] = []
    unwatch = one.app.store.presence.unwatch

    async def note(users: Collection[UserId], server: str) -> None:
        await unwatch(users, server)
        removed.append(set(users))

    monkeypatch.setattr(one.app.store.presence, "unwatch", note)
    first, second = Screen(one.hub), Screen(one.hub)
    await first.watch.add([ANN, BEN])
    first.watch.close()
    first.watch.close()
    # A client that reconnects soon causes no writes.
    trips = one.app.store.cache.trips
    await second.watch.add([ANN])
    assert one.app.store.cache.trips == trips
    await wait_for(lambda: removed == [{BEN}])
    assert list(one.hub.users) == [ANN]
    second.watch.close()
    await wait_for(lambda: removed == [{BEN}, {ANN}])
    (change,) = await two.app.store.presence.change_devices([DeviceChange(ANN, two.name, (two.device(),))])
    assert list(change.servers) == []
    assert len(one.hub.users) == 0
    assert dict(one.hub.users._by_server) == {}


async def test_a_failed_read_leaves_nothing_behind(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = servers
    one.hub.unwatch_seconds = 0.01

    async def fail(*_: Any) -> dict[UserId, PresenceRecord]:
        raise Unreachable("test")

    with monkeypatch.context() as patch:
        patch.setattr(one.app.store.presence, "watch", fail)
        with pytest.raises(Unreachable):
            await Screen(one.hub).watch.add([ANN])
    await wait_for(lambda: len(one.hub.users) == 0)
    assert set(await Screen(one.hub).watch.add([ANN])) == {ANN}


async def test_many_changes_at_the_same_time_let_other_tasks_run(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    # Each slice ends at once, so the number of slices does not depend on the machine.
    monkeypatch.setattr("subscriptions.realtime.shared.loop_slices._SLICE_SECONDS", 0.0)
    users = [UserId(f"user-{number}") for number in range(400)]
    for start in range(0, len(users), 200):
        await two.put(*users[start : start + 200])
    screen = Screen(one.hub)
    for start in range(0, len(users), 200):
        await screen.watch.add(users[start : start + 200])
    for start in range(0, len(users), 200):
        await two.end(*users[start : start + 200])
    await wait_for(lambda: len(one.hub.users._changes) >= len(users))
    one.clock.ms += 15_000
    one.hub.users.derive_soon()
    steps = 0
    while len(screen.states) < len(users):
        await asyncio.sleep(0)
        steps += 1
    assert steps >= len(users) // 2
    assert set(screen.statuses) == {"OFFLINE"}


async def test_times_of_changes_that_are_out_of_date_are_forgotten(servers: tuple[Server, Server]) -> None:
    one, _ = servers
    await Screen(one.hub).watch.add([ANN])
    for number in range(1_100):
        status = CustomStatus(None, "x", one.clock.ms + 1_000_000 + number)
        record = PresenceRecord(ANN, custom_status=status, version=one.clock.ms * 2 + number)
        one.hub.users.receive(record)
        one.hub.users.present_state(one.hub.users.add(ANN))
    assert len(one.hub.users._changes) < 1_050


async def test_devices_of_a_server_that_was_paused_come_back(servers: tuple[Server, Server]) -> None:
    one, two = servers
    devices = two.app.devices
    connection = devices.connect(ANN, GivenDevice("phone", DeviceType.MOBILE), lambda: None)
    screen = Screen(one.hub)
    await wait_for(lambda: devices.own_record(ANN) is not None)
    await screen.watch.add([ANN])
    await one.app.live_servers.report()
    await two.app.live_servers.report()
    # All tasks of the second server stand still; its connections to Redis survive.
    await two.services.housekeeper.close()
    await one.move_clock(120_000)
    assert screen.statuses[-1] == "OFFLINE"
    # This removes the devices of the server from the record.
    await one.put(ANN, device="web")
    await one.end(ANN, device="web")
    assert two.name not in {device.server for device in one.record(ANN).devices}
    await one.move_clock(20_000)
    for _ in range(3):
        await two.app.live_servers.report()
        await one.move_clock(5_000)
    await wait_for(lambda: one.status(ANN) == "ONLINE")
    connection.end()


@pytest.mark.parametrize("setting", [PresenceSetting.DND, PresenceSetting.IDLE])
async def test_the_last_use_is_the_same_on_all_servers_whatever_is_set(
    servers: tuple[Server, Server], setting: PresenceSetting
) -> None:
    one, two = servers
    await two.set(ANN, setting)
    await two.put(ANN)
    screens = [Screen(server.hub) for server in servers]
    for screen in screens:
        await screen.watch.add([ANN])
    used_ms = two.clock.ms
    await two.put(ANN, idle_since_ms=used_ms)
    await wait_for(lambda: one.record(ANN).version == two.record(ANN).version)
    for _ in range(60):
        await one.move_clock(10_000)
        await two.app.live_servers.report()
    shown = [(await server.hub.read([ANN]))[ANN] for server in servers]
    assert shown[0] == shown[1]
    assert shown[0].last_active_at_ms == used_ms - used_ms % 60_000
