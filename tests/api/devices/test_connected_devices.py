"""Connected devices: how they come into the records of their users, become idle, and depart."""

from __future__ import annotations

import pytest

from resolvers.base.app import Confab
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.mongo.collections import DEVICES, PRESENCES
from store.presence.presence_record import Activity, ActivityType, DeviceType, PresenceSetting
from subscriptions.delivery.housekeeping import _REWRITE_SECONDS
from subscriptions.presence.connected_devices import REWRITE_MS
from tests.api.client import Api
from tests.api.conftest import Deployments, OpenApi
from tests.api.devices.calls import (
    Line,
    TimedDevices,
    is_hidden,
    list_devices,
    read_devices,
    read_record,
    until,
    wait_for_rows,
)

PLAYING = Activity(ActivityType.PLAYING, "Chess")


async def report(line: Line, *, is_active: bool, activities: list[Activity] | None = None, api: Api) -> None:
    line.device.note_use("reportActivity")
    await api.services.app.devices.report_activity(line.device, is_active=is_active, activities=activities)


async def set_presence(app: Confab, user: str, value: PresenceSetting, until_ms: int | None = None) -> None:
    app.devices.announce([await app.store.presence.set_presence(UserId(user), value, until_ms)])


async def test_a_connection_is_a_device_in_the_record_of_its_user(timed: TimedDevices) -> None:
    api, began = timed.api, timed.clock.ms
    (alice,) = await api.create_users("alice")
    phone, nameless = Line(api, alice, "phone", DeviceType.MOBILE), Line(api, alice)
    devices = await read_devices(api, alice)
    assert {device.type for device in devices.values()} == {DeviceType.MOBILE, DeviceType.WEB} and len(devices) == 2
    assert devices["phone"].since_ms == began and devices["phone"].gone_at_ms is None
    assert not nameless.device.is_named and not nameless.device.device.isprintable()
    await wait_for_rows(api)
    assert [device["id"] for device in await list_devices(api, alice)] == ["phone"]
    for line in (phone, nameless):
        line.device.end()


async def test_several_connections_of_a_device_are_one_device(timed: TimedDevices) -> None:
    api, began = timed.api, timed.clock.ms
    (alice,) = await api.create_users("alice")
    first, second = Line(api, alice, "phone"), Line(api, alice, "phone", DeviceType.DESKTOP)
    await timed.pass_time(5)
    first.device.end()
    first.device.end()
    device = (await read_devices(api, alice))["phone"]
    assert (device.since_ms, device.gone_at_ms, device.type) == (began, None, DeviceType.DESKTOP)
    second.device.end()
    assert (await read_devices(api, alice))["phone"].gone_at_ms == timed.clock.ms


async def test_a_reconnect_within_15_seconds_continues_the_device(timed: TimedDevices) -> None:
    api, began = timed.api, timed.clock.ms
    (alice,) = await api.create_users("alice")
    line = Line(api, alice, "phone")
    await timed.pass_time(301)
    assert (await read_devices(api, alice))["phone"].idle_since_ms == began
    line.device.end()
    await timed.pass_time(14)
    line = Line(api, alice, "phone")
    await timed.pass_time(60)
    device = (await read_devices(api, alice))["phone"]
    assert (device.since_ms, device.idle_since_ms, device.gone_at_ms) == (began, began, None)
    line.device.end()
    await timed.pass_time(15)
    line = Line(api, alice, "phone")
    device = (await read_devices(api, alice))["phone"]
    assert (device.since_ms, device.idle_since_ms, device.gone_at_ms) == (timed.clock.ms, None, None)
    line.device.end()


async def test_a_device_is_idle_five_minutes_after_its_last_use(timed: TimedDevices) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    used, unused = Line(api, alice, "used"), Line(api, alice, "unused")
    began = timed.clock.ms
    await timed.pass_time(200)
    await used.data('mutation { updateMe(displayName: "Alice") { id } }')
    for mutation in ("ackDelivered", "ackManyDelivered", "renewAuth", "reportActivity"):
        unused.device.note_use(mutation)
    await timed.pass_time(99.9)
    assert all(device.idle_since_ms is None for device in (await read_devices(api, alice)).values())
    await timed.pass_time(0.1)
    devices = await read_devices(api, alice)
    assert (devices["used"].idle_since_ms, devices["unused"].idle_since_ms) == (None, began)
    await timed.pass_time(200)
    assert (await read_devices(api, alice))["used"].idle_since_ms == began + 200_000
    await used.data('mutation { updateMe(displayName: "Alice") { id } }')
    assert (await read_devices(api, alice))["used"].idle_since_ms is None
    for line in (used, unused):
        line.device.end()


async def test_reports_of_activity_count_once_in_15_seconds_and_changes_always(timed: TimedDevices) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    line = Line(api, alice, "phone")
    began = timed.clock.ms
    await timed.pass_time(14)
    await report(line, is_active=True, api=api)
    await report(line, is_active=False, api=api)
    assert (await read_devices(api, alice))["phone"].idle_since_ms == began
    await report(line, is_active=False, api=api)
    await report(line, is_active=True, activities=[PLAYING], api=api)
    device = (await read_devices(api, alice))["phone"]
    assert (device.idle_since_ms, device.activities) == (None, (PLAYING,))
    await timed.pass_time(15)
    version = (await read_record(api, alice)).version
    await report(line, is_active=True, activities=[PLAYING], api=api)
    await report(line, is_active=True, api=api)
    assert (await read_record(api, alice)).version == version
    await timed.pass_time(299)
    assert (await read_devices(api, alice))["phone"].idle_since_ms is None
    await report(line, is_active=True, activities=[], api=api)
    assert (await read_devices(api, alice))["phone"].activities == ()
    line.device.end()


async def test_a_departed_device_is_removed_after_a_minute_and_its_time_is_stored(timed: TimedDevices) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    line = Line(api, alice, "phone")
    await wait_for_rows(api)
    await timed.pass_time(120)
    line.device.end()
    gone = timed.clock.ms
    assert (await read_devices(api, alice))["phone"].gone_at_ms == gone
    stored = api.database[PRESENCES]
    await timed.pass_time(14)
    assert stored.count_documents({"_id": alice}) == 0
    await timed.pass_time(1)
    assert gone in stored.find_one({"_id": alice}).values()  # type: ignore[union-attr]
    await wait_for_rows(api)
    assert api.database[DEVICES].find_one({"_id": f"{alice} phone"})["s"] == gone  # type: ignore[index]
    await timed.pass_time(45)
    record = await read_record(api, alice)
    assert record.devices == () and record.seen_ms == gone


async def test_a_silent_device_departs_30_seconds_after_it_was_last_heard_from(timed: TimedDevices) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    line = Line(api, alice, "phone")
    await timed.pass_time(60)
    line.device.end(silent_ms=41_000)
    assert (await read_devices(api, alice))["phone"].gone_at_ms == timed.clock.ms - 11_000


async def test_reconnecting_often_causes_few_writes(timed: TimedDevices, monkeypatch: pytest.MonkeyPatch) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    devices, written = api.services.app.store.devices, list[int]()
    note_seen = devices.note_seen

    async def counting(seen: object) -> None:
        sightings = list(seen)  # type: ignore[call-overload]
        written.append(len(sightings))
        await note_seen(sightings)

    monkeypatch.setattr(type(devices), "note_seen", staticmethod(counting))
    for _ in range(100):
        line = Line(api, alice, "phone")
        await timed.pass_time(2)
        line.device.end()
        await timed.pass_time(16)
        await wait_for_rows(api)
    # Half an hour: the first connection, and departures more than a minute after the last write.
    assert sum(written) <= 1 + 30
    written.clear()
    for _ in range(20):
        line = Line(api, alice, "phone")
        await wait_for_rows(api)
        line.device.end()
    assert sum(written) == 0
    line = Line(api, alice, "phone", DeviceType.MOBILE)
    await wait_for_rows(api)
    assert [device["type"] for device in await list_devices(api, alice)] == ["MOBILE"]
    assert sum(written) == 1
    line.device.end()


async def test_a_lost_redis_gets_the_devices_again(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    (alice,) = await api.create_users("alice")
    line = Line(api, alice, "phone")
    await set_presence(api.services.app, alice, PresenceSetting.INVISIBLE)
    assert set(await read_devices(api, alice)) == {"phone"}
    deployments.flush_redis("lost")
    await api.services.housekeeper.check_redis()
    record = await read_record(api, alice)
    assert [device.device for device in record.devices] == ["phone"]
    assert record.setting.value is PresenceSetting.INVISIBLE and is_hidden(api.services.app, UserId(alice))
    line.device.end()


async def test_failed_writes_are_repeated(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (alice,) = await api.create_users("alice")
    app = api.services.app
    change_devices, failures = type(app.store.presence).change_devices, 3

    async def failing(self: object, changes: object) -> object:
        nonlocal failures
        if failures:
            failures -= 1
            raise Unreachable("Redis does not answer")
        return await change_devices(self, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(type(app.store.presence), "change_devices", failing)
    phone, laptop = Line(api, alice, "phone"), Line(api, alice, "laptop")
    laptop.device.end()
    devices = await read_devices(api, alice)
    assert failures == 0 and devices["phone"].gone_at_ms is None and devices["laptop"].gone_at_ms is not None
    failures = 1
    with pytest.raises(Unreachable):
        await app.devices.report_activity(phone.device, is_active=False, activities=None)
    assert (await read_devices(api, alice))["phone"].idle_since_ms is not None
    phone.device.end()


async def test_all_devices_are_written_again_within_half_an_hour(timed: TimedDevices, deployments: Deployments) -> None:
    api, devices = timed.api, timed.api.services.app.devices
    users = await api.create_users(*(f"user{number}" for number in range(40)))
    lines = [Line(api, user, "phone") for user in users]
    await read_record(api, users[0])
    versions = {user: (await read_record(api, user)).version for user in users}
    most, steps = 0, round(REWRITE_MS / 1000 / _REWRITE_SECONDS)
    for _ in range(steps + steps // 2):
        timed.clock.ms += round(_REWRITE_SECONDS * 1000)
        devices.rewrite_some(round(_REWRITE_SECONDS * 1000))
        most = max(most, devices._writer.pending)
        await until(lambda: devices._writer._task is None)
    after = {user: (await read_record(api, user)).version for user in users}
    assert all(after[user] > versions[user] for user in users)
    assert most <= 2
    await timed.pass_time(0)
    for line in lines:
        line.device.end()


async def test_a_changed_setting_is_known_on_all_servers_with_devices(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    apps = [api.services.app, other_api.services.app]
    lines = [Line(api, alice, "phone"), Line(other_api, alice, "laptop"), Line(api, bob, "phone")]
    user = UserId(alice)
    # Until a record is read, nothing about the user may be shown.
    assert is_hidden(apps[0], user)
    for process in (api, other_api):
        await read_record(process, alice)
    assert not any(is_hidden(app, user) for app in apps)
    await set_presence(apps[0], alice, PresenceSetting.INVISIBLE)
    assert is_hidden(apps[0], user)
    await until(lambda: is_hidden(apps[1], user))
    assert not is_hidden(apps[0], UserId(bob))
    await set_presence(apps[1], alice, PresenceSetting.DND)
    await until(lambda: not is_hidden(apps[0], user) and not is_hidden(apps[1], user))
    for line in lines:
        line.device.end()


async def test_a_setting_ends_at_its_time_on_all_servers(timed: TimedDevices) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    line = Line(api, alice, "phone")
    await read_record(api, alice)
    await set_presence(api.services.app, alice, PresenceSetting.INVISIBLE, timed.clock.ms + 60_000)
    assert is_hidden(api.services.app, UserId(alice))
    await timed.pass_time(60)
    assert not is_hidden(api.services.app, UserId(alice))
    line.device.end()


async def test_departures_at_a_shutdown_are_left_to_the_end_of_the_server(open_api: OpenApi, api: Api) -> None:
    (alice,) = await api.create_users("alice")
    async with open_api("main") as ending:
        line, server = Line(ending, alice, "phone"), ending.services.app.hub.server
        await read_record(ending, alice)
        await ending.services.app.devices.begin_shutdown()
        line.device.end()
        assert (await read_devices(ending, alice))["phone"].gone_at_ms is None
    await api.services.app.live_servers.report()
    assert api.services.app.live_servers.find_end(server) is not None
    assert await api.services.app.devices.list_connected([UserId(alice)]) == {alice: set()}


async def test_nothing_is_kept_of_users_who_have_left(timed: TimedDevices) -> None:
    api, devices = timed.api, timed.api.services.app.devices
    await timed.pass_time(61)
    users = await api.create_users(*(f"user{number}" for number in range(20)))
    for user in users:
        Line(api, user, "phone").device.end()
    await wait_for_rows(api)
    await timed.pass_time(15)
    await timed.pass_time(46)
    await read_record(api, users[0])
    kept = (
        devices._users,
        devices._in_use,
        devices._leaving,
        devices._left,
        devices._written,
        devices._settings._known,
    )
    assert [len(each) for each in kept] == [0] * len(kept)
