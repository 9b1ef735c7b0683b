"""Presence records in real databases, also when Redis loses some or all of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.presence.presence_cache import READ_AGAIN_MS, ChangedPresence
from store.presence.presence_record import (
    Activity,
    ActivityType,
    CustomStatus,
    DevicePresence,
    DeviceType,
    HiddenTime,
    PresenceRecord,
    PresenceSetting,
    Setting,
)
from store.presence.presence_store import DeviceChange, PresenceStore
from store.presence.record_codec import decode_record, encode_record
from store.presence.shown_presence import KEPT_AFTER_MS, PresenceStatus, last_seen_ms, shown_presence
from store.redis.cache import Cache, Call
from store.store import Store
from tests.clock import ManualClock
from tests.store.presence.stores import evict, open_presence

ANNA, BEN = UserId("anna"), UserId("ben")
ONLINE, IDLE, DND, INVISIBLE = PresenceSetting
MINUTE = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def presence(store: Store, clock: ManualClock) -> PresenceStore:
    return open_presence(store, clock)


def a_device(clock: ManualClock, device: str = "phone", server: str = "s1", **fields: Any) -> DevicePresence:
    return DevicePresence(server, device, DeviceType.MOBILE, clock.ms, **fields)


async def put(presence: PresenceStore, *devices: DevicePresence, user: UserId = ANNA) -> ChangedPresence:
    (change,) = await presence.change_devices([DeviceChange(user, devices[0].server, devices)])
    return change


async def read(presence: PresenceStore, user: UserId = ANNA) -> PresenceRecord:
    return (await presence.read([user]))[user]


async def lose_redis(store: Store) -> None:
    await store.deployment.generations.begin_next()
    await store.deployment.check_redis()


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
    assert record.custom_status == status and record.devices == (phone,) and change.servers == ["s2"]
    clock.ms += 20_000
    assert shown_presence(await read(presence), presence.find_end, clock.ms).shown.status is PresenceStatus.OFFLINE


async def test_versions_grow_over_an_eviction(store: Store, presence: PresenceStore, clock: ManualClock) -> None:
    versions = [(await put(presence, a_device(clock))).record.version for _ in range(5)]
    assert versions == sorted(set(versions))
    clock.ms += 1_000
    await evict(store, ANNA)
    assert (await read(presence)).version > versions[-1]


async def test_concurrent_settings_end_with_the_same_result_in_both(store: Store, clock: ManualClock) -> None:
    stores = [open_presence(store, clock) for _ in range(2)]
    for _ in range(5):
        clock.ms += 1_000
        calls = [each.set_presence(ANNA, value, None) for each, value in itertools.product(stores, (IDLE, DND))]
        calls += [
            each.set_custom_status(ANNA, CustomStatus(text, None)) for each, text in zip(stores, "ab", strict=True)
        ]
        await asyncio.gather(*calls)
        cached = await read(stores[0])
        await evict(store, ANNA)
        loaded = await read(stores[1])
        assert (cached.setting, cached.custom_status) == (loaded.setting, loaded.custom_status)


async def test_an_older_row_never_replaces_a_newer_one(store: Store, presence: PresenceStore) -> None:
    await presence.set_presence(ANNA, IDLE, None)
    rows = await presence._rows.find([ANNA])
    change = await presence.set_presence(ANNA, DND, None)
    await store.cache.one(presence._records.load_call(ANNA, rows[ANNA], is_for_reader=True))
    assert await read(presence) == change.record


async def test_a_setting_that_did_not_reach_redis_is_applied_soon(
    store: Store, presence: PresenceStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await presence.watch([ANNA], "s2", clock.ms + MINUTE)
    await put(presence, a_device(clock))

    async def fail(self: Cache, call: Call) -> None:
        raise Unreachable("Redis is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(Cache, "one", fail)
        with pytest.raises(Unreachable):
            await presence.set_presence(ANNA, DND, None)
    assert (await read(presence)).setting.value is ONLINE
    reloaded: list[ChangedPresence] = []
    monkeypatch.setattr(store.presence_records, "on_reloaded", reloaded.extend)
    await store.stale_caches.invalidate()
    record = await read(presence)
    assert record.setting.value is DND and len(record.devices) == 1
    assert reloaded == [ChangedPresence(None, record, ["s2"])]
    await store.stale_caches.invalidate()
    assert len(reloaded) == 1


async def test_a_client_that_repeats_a_failed_setting_has_it_applied(
    presence: PresenceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await presence.set_presence(ANNA, ONLINE, None)
    await read(presence)

    async def fail(self: Cache, call: Call) -> None:
        raise Unreachable("Redis is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(Cache, "one", fail)
        with pytest.raises(Unreachable):
            await presence.set_presence(ANNA, DND, None)
    change = await presence.set_presence(ANNA, DND, None)
    assert change.before is not None and change.before.setting.value is ONLINE
    assert change.record.setting.value is DND


async def test_a_setting_that_mongodb_refused_changes_nothing(
    store: Store, presence: PresenceStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (await put(presence, a_device(clock))).record

    async def fail(*_args: object) -> None:
        raise Unreachable("MongoDB has no primary")

    with monkeypatch.context() as patch:
        patch.setattr(store.mongo, "write", fail)
        with pytest.raises(Unreachable):
            await presence.set_presence(ANNA, INVISIBLE, None)
        with pytest.raises(Unreachable):
            await presence.set_custom_status(ANNA, CustomStatus("out", None))
    for at_ms in (clock.ms, clock.ms + 15_000, clock.ms + MINUTE):
        after = shown_presence(await read(presence), presence.find_end, at_ms).shown
        assert after == shown_presence(before, presence.find_end, at_ms).shown


async def test_a_change_after_one_without_an_answer_is_always_announced(
    store: Store, presence: PresenceStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.cache.run_in_background

    async def lose_answers(calls: Sequence[Call]) -> list[Any]:
        await run(calls)
        raise Unreachable("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(store.cache, "run_in_background", lose_answers)
        with pytest.raises(Unreachable):
            await put(presence, a_device(clock))
    change = await put(presence, a_device(clock))
    assert change.before is None and len(change.record.devices) == 1
    assert (await put(presence, a_device(clock))).before == change.record


async def test_a_part_that_is_out_of_date_is_loaded_again_after_an_hour(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    """The situation after a server that died between its write to MongoDB and the one to Redis."""
    await read(presence)
    phone = a_device(clock)
    await put(presence, phone)
    rows = await presence._rows.find([ANNA])
    await presence._rows.replace(ANNA, rows[ANNA], replace(rows[ANNA], setting=Setting(DND, clock.ms)))
    assert (await read(presence)).setting.value is ONLINE
    clock.ms += READ_AGAIN_MS + 1
    record = await read(presence)
    assert record.setting.value is DND and record.devices == (phone,)


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


async def test_becoming_invisible_without_devices_is_no_use(
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


GO = Activity(ActivityType.COMPETING, "Go", "d", "s", 4, 5)
FULL = PresenceRecord(
    ANNA,
    (
        DevicePresence(
            "s1", "phone", DeviceType.MOBILE, 1, 2, 3, (Activity(ActivityType.COMPETING, "Go", "d", "s", 4, 5),)
        ),
        DevicePresence("s2", "laptop", DeviceType.DESKTOP, 6),
    ),
    Setting(INVISIBLE, 7, 8, DND, 9, (HiddenTime(1, 2), HiddenTime(3, 4))),
    CustomStatus("text", "emoji", 10),
    (DevicePresence("s1", "phone", DeviceType.MOBILE, 1, None, 11),),
    12,
    13,
)


@pytest.mark.parametrize("record", [FULL, PresenceRecord(ANNA), replace(FULL, custom_status=CustomStatus(None, "x"))])
def test_a_record_on_the_bus_is_the_same_afterwards(record: PresenceRecord) -> None:
    assert decode_record(orjson.loads(orjson.dumps(encode_record(record)))) == record


def test_fields_and_kinds_of_later_versions_are_ignored() -> None:
    form = encode_record(FULL) | {"new": 1}
    form["d"] = [each | {"new": 1} for each in form["d"]]
    form["d"][0]["a"].append({"t": "COOKING", "n": "soup"})
    form["s"] |= {"new": [1]}
    form["c"] |= {"new": None}
    assert decode_record(form) == FULL
    form["d"][1]["t"] = "WATCH"
    form["s"]["v"] = "FOCUS"
    decoded = decode_record(form)
    assert decoded.devices[1].type is DeviceType.WEB and decoded.setting.value is ONLINE
