"""Presence records in real databases, also when Redis loses some or all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from store.base.ids import UserId
from store.presence.presence_fields import ALL_SERVERS
from store.presence.presence_record import (
    Activity,
    ActivityType,
    CustomStatus,
    PresenceSetting,
    Setting,
)
from store.presence.presence_store import DeviceChange, PresenceStore
from store.presence.shown_presence import KEPT_AFTER_MS, PresenceStatus, last_seen_ms, shown_presence
from store.redis.cache import Call
from store.store import Store
from tests.clock import ManualClock
from tests.store.presence.stores import ANNA, BEN, MINUTE, a_device, evict, lose_redis, put, read

ONLINE, IDLE, DND, INVISIBLE = PresenceSetting


async def test_a_change_returns_the_record_and_the_servers_that_show_it(
    presence: PresenceStore, clock: ManualClock
) -> None:
    watched = await presence.watch([ANNA], "s2", clock.ms + MINUTE)
    assert watched[ANNA].devices == ()
    phone = a_device(clock)
    change = await put(presence, phone)
    assert change.before == watched[ANNA]
    assert change.record.devices == (phone,) and change.servers == ["s2"]
    assert change.record.version > watched[ANNA].version
    assert await presence.read([ANNA]) == {ANNA: change.record}
    await presence.unwatch([ANNA], "s2")
    (change,) = await presence.change_devices([DeviceChange(ANNA, "s1", removed=["phone"])])
    assert change.record.devices == () and change.servers == []


@pytest.mark.parametrize("lost", ["pwatch", "presence"])
async def test_all_servers_get_a_change_if_the_watching_servers_may_be_lost(
    store: Store, presence: PresenceStore, clock: ManualClock, lost: str
) -> None:
    await put(presence, a_device(clock))
    await presence.watch([ANNA], "s2", clock.ms + MINUTE)
    assert (await put(presence, a_device(clock))).servers == ["s2"]
    await evict(store, ANNA, lost)
    assert (await put(presence, a_device(clock))).servers == [ALL_SERVERS]
    # Others have not watched again until the latest time for which they did it before.
    await presence.watch([ANNA], "s3", clock.ms + 2 * MINUTE)
    expected = {"pwatch": [ALL_SERVERS], "presence": ["s2", "s3"]}[lost]
    assert (await put(presence, a_device(clock))).servers == expected
    clock.ms += MINUTE + 1
    assert (await put(presence, a_device(clock))).servers == ["s3"]
    await presence.unwatch([ANNA], "s3")
    assert (await put(presence, a_device(clock))).servers == []


async def test_users_whose_records_were_not_there_are_announced(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    missing: list[UserId] = []
    presence._records.on_missing = missing.extend
    await put(presence, a_device(clock))
    await put(presence, a_device(clock))
    await presence.read([ANNA, BEN])
    assert missing == [ANNA, BEN]
    await evict(store, ANNA)
    await presence.watch([ANNA, BEN], "s2", clock.ms + MINUTE)
    await presence.read([ANNA, BEN])
    assert missing == [ANNA, BEN, ANNA]


async def test_servers_whose_watch_has_ended_get_no_changes(presence: PresenceStore, clock: ManualClock) -> None:
    await presence.watch([ANNA], "s2", clock.ms + MINUTE)
    await presence.watch([ANNA], "s3", clock.ms + 2 * MINUTE)
    await presence.watch([ANNA], "s3", clock.ms + 1)
    clock.ms += MINUTE + 1
    assert (await put(presence, a_device(clock))).servers == ["s3"]


async def test_devices_of_two_servers_are_kept_apart(presence: PresenceStore, clock: ManualClock) -> None:
    here, there = a_device(clock), a_device(clock, "a:b c", "s2", activities=(Activity(ActivityType.PLAYING, "Go"),))
    await put(presence, here)
    change = await put(presence, there)
    assert set(change.record.devices) == {here, there}
    (change,) = await presence.change_devices([DeviceChange(ANNA, "s1", removed=["phone", "a:b c"])])
    assert change.record.devices == (there,)


async def test_a_setting_and_a_custom_status_outlast_redis(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    until = clock.ms + MINUTE
    await presence.set_presence(ANNA, DND, until)
    status = CustomStatus("away", None, clock.ms + 5_000)
    change = await presence.set_custom_status(ANNA, status)
    assert change.record.setting == Setting(DND, clock.ms, until) and change.record.custom_status == status
    await lose_redis(store)
    found = await read(presence)
    assert (found.setting, found.custom_status) == (change.record.setting, status)
    await presence.set_custom_status(ANNA, None)
    await lose_redis(store)
    assert (await read(presence)).custom_status is None


async def test_invisible_again_keeps_the_time_and_the_setting_before(
    presence: PresenceStore, clock: ManualClock
) -> None:
    await presence.set_presence(ANNA, IDLE, None)
    clock.ms += MINUTE
    first = await presence.set_presence(ANNA, INVISIBLE, None)
    assert first.record.setting == Setting(INVISIBLE, clock.ms, None, IDLE)
    clock.ms += MINUTE
    again = await presence.set_presence(ANNA, INVISIBLE, None)
    assert again.record == again.before == first.record
    later = await presence.set_presence(ANNA, INVISIBLE, clock.ms + MINUTE)
    assert later.record.setting == replace(first.record.setting, until_ms=clock.ms + MINUTE)


@pytest.mark.parametrize("key", ["presence", "pwatch", "both"])
@pytest.mark.parametrize("step", range(6))
async def test_a_key_may_be_evicted_at_any_step(
    store: Store, presence: PresenceStore, clock: ManualClock, key: str, step: int
) -> None:
    phone, status = a_device(clock), CustomStatus("out", None)

    async def watch() -> object:
        return await presence.watch([ANNA], "s2", clock.ms + 60 * MINUTE)

    steps: Sequence[Callable[[], Any]] = (
        watch,
        lambda: put(presence, phone),
        lambda: presence.set_presence(ANNA, DND, None),
        lambda: presence.set_custom_status(ANNA, status),
        lambda: presence.set_presence(ANNA, INVISIBLE, None),
    )
    for number, make in enumerate(steps):
        if number == step:
            await evict(store, ANNA, *(["presence", "pwatch"] if key == "both" else [key]))
        clock.ms += 1_000
        await make()
    if step == len(steps):
        await evict(store, ANNA, *(["presence", "pwatch"] if key == "both" else [key]))
    # The servers write their devices and watches again.
    await watch()
    change = await put(presence, phone)
    record = change.record
    assert record.setting.value is INVISIBLE and record.setting.before is DND
    assert record.custom_status == status and record.devices == (phone,)
    assert change.servers in (["s2"], [ALL_SERVERS])
    clock.ms += 20_000
    assert shown_presence(await read(presence), presence.find_end, clock.ms).shown.status is PresenceStatus.OFFLINE


async def test_versions_grow_over_an_eviction(store: Store, presence: PresenceStore, clock: ManualClock) -> None:
    versions = [(await put(presence, a_device(clock))).record.version for _ in range(5)]
    assert versions == sorted(set(versions))
    clock.ms += 1_000
    await evict(store, ANNA)
    assert (await read(presence)).version > versions[-1]


async def test_reads_cost_the_same_whether_a_user_is_known_absent_or_connected(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    """Devices that are written do not make the first read of a user cheaper."""
    await put(presence, a_device(clock), user=UserId("connected"))
    await put(presence, a_device(clock), user=UserId("hidden"))
    await presence.set_presence(UserId("hidden"), INVISIBLE, None)
    await presence.set_presence(UserId("absent"), DND, None)
    costs = []
    for user in ("connected", "hidden", "absent", "unknown"):
        for _ in range(2):
            before = store.mongo.trips, store.cache.trips
            await presence.read([UserId(user)])
            costs.append((store.mongo.trips - before[0], store.cache.trips - before[1]))
    assert costs == 4 * [(1, 2), (0, 1)]


async def test_two_hundred_users_are_read_in_one_round_trip(store: Store, presence: PresenceStore) -> None:
    users = [UserId(f"user{number}") for number in range(200)]
    for cost in ((1, 2), (0, 1)):
        before = store.mongo.trips, store.cache.trips
        assert list(await presence.read(users)) == users
        assert (store.mongo.trips - before[0], store.cache.trips - before[1]) == cost
    assert await presence.read([]) == {}


async def test_departed_devices_are_removed_by_a_later_change(presence: PresenceStore, clock: ManualClock) -> None:
    phone, laptop = a_device(clock), a_device(clock, "laptop", idle_since_ms=clock.ms)
    await put(presence, phone, laptop)
    clock.ms += 1_000
    left_at = clock.ms
    await put(presence, replace(phone, gone_at_ms=left_at))
    clock.ms += KEPT_AFTER_MS
    assert len((await put(presence, laptop)).record.devices) == 2
    clock.ms += 1
    change = await put(presence, laptop)
    assert change.record.devices == (laptop,) and change.record.seen_ms == left_at
    assert (await read(presence)) == change.record


async def test_devices_of_ended_servers_are_removed_by_a_later_change(
    presence: PresenceStore, clock: ManualClock
) -> None:
    ended, phone = a_device(clock, server="s0"), a_device(clock, idle_since_ms=clock.ms)
    await put(presence, ended)
    presence.find_end = {"s0": clock.ms + 1_000}.get
    clock.ms += KEPT_AFTER_MS + 1_001
    change = await put(presence, phone)
    assert change.record.devices == (phone,) and change.record.seen_ms == ended.since_ms + 1_000
    assert (await read(presence)) == change.record


async def test_the_last_use_of_a_removed_device_stays_known(presence: PresenceStore, clock: ManualClock) -> None:
    await put(presence, a_device(clock, gone_at_ms=clock.ms))
    clock.ms += MINUTE
    (change,) = await presence.change_devices([DeviceChange(ANNA, "s1", removed=["phone"])])
    assert change.record.seen_ms == (await read(presence)).seen_ms == clock.ms - MINUTE


async def test_the_last_departure_outlasts_redis(store: Store, presence: PresenceStore, clock: ManualClock) -> None:
    change = await put(presence, a_device(clock, gone_at_ms=clock.ms))
    await presence.note_departures([change.record])
    await presence.note_departures([replace(change.record, devices=())])
    await presence.note_departures([replace(change.record, devices=(), seen_ms=1)])
    await lose_redis(store)
    assert (await read(presence)).seen_ms == clock.ms
    assert (await read(presence, BEN)).seen_ms is None


async def test_becoming_invisible_is_the_last_departure_also_after_a_loss(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    phone = a_device(clock)
    await put(presence, phone)
    clock.ms += MINUTE
    hidden_at = clock.ms
    await presence.set_presence(ANNA, INVISIBLE, None)
    clock.ms += 10 * MINUTE
    change = await put(presence, replace(phone, gone_at_ms=clock.ms))
    await presence.note_departures([change.record])
    for _ in range(2):
        record = await read(presence)
        assert last_seen_ms(record, presence.find_end, clock.ms) == hidden_at
        await lose_redis(store)


async def test_becoming_invisible_without_devices_does_not_change_the_last_use(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    await presence.set_presence(ANNA, INVISIBLE, None)
    clock.ms += MINUTE
    await presence.note_departures([(await put(presence, a_device(clock, gone_at_ms=clock.ms))).record])
    for _ in range(2):
        assert last_seen_ms(await read(presence), presence.find_end, clock.ms) is None
        await lose_redis(store)


async def test_records_expire_two_hours_after_their_last_change(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    await presence.watch([ANNA], "s2", clock.ms + MINUTE)
    await put(presence, a_device(clock))
    for name in ("presence", "pwatch"):
        left_ms = await store.cache.one(Call("PTTL", (store.keys.of_user(ANNA, name),)))
        assert 7_000_000 < left_ms <= 7_200_000
