"""The presence that others see: INVISIBLE is a departure of all devices, and the time of the next change is exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from store.base.ids import UserId
from store.presence.presence_record import (
    MOST_HIDDEN_TIMES,
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
from store.presence.shown_presence import (
    ANNOUNCED_AFTER_MS,
    PresenceStatus,
    ShownPresence,
    departed_devices,
    is_same,
    last_seen_ms,
    shown_presence,
    without_ended_devices,
)

ANNA = UserId("anna")
MINUTE = 60_000
T = 20 * MINUTE
"""The time at which the user becomes INVISIBLE."""

MUSIC, GAME = Activity(ActivityType.LISTENING, "Radio"), Activity(ActivityType.PLAYING, "Chess")
ONLINE, IDLE, DND, INVISIBLE = PresenceSetting


def alive(server: str) -> int | None:
    return None


def shown(record: PresenceRecord, now_ms: int, ends: Mapping[str, int] | None = None) -> ShownPresence:
    return shown_presence(record, (ends or {}).get, now_ms).shown


def hide(
    record: PresenceRecord, now_ms: int, ends: Mapping[str, int] | None = None, until_ms: int | None = None
) -> PresenceRecord:
    """Return the record after the user becomes INVISIBLE, as `PresenceStore.set_presence` makes it."""
    departed = departed_devices(record, (ends or {}).get, now_ms)
    return replace(record, setting=record.setting.change_to(INVISIBLE, until_ms, now_ms), departed=departed)


def set_to(record: PresenceRecord, value: PresenceSetting, now_ms: int) -> PresenceRecord:
    if value is INVISIBLE and not record.setting.is_hidden_at(now_ms):
        return hide(record, now_ms)
    return replace(record, setting=record.setting.change_to(value, None, now_ms))


def depart(record: PresenceRecord, now_ms: int) -> PresenceRecord:
    """Return the record after the departure of all devices that are there."""
    devices = (
        each if each.gone_at_ms is not None and each.gone_at_ms <= now_ms else replace(each, gone_at_ms=now_ms)
        for each in record.devices
    )
    return replace(record, devices=tuple(devices))


times = st.integers(0, 40 * MINUTE)
past = st.integers(0, T)
later = st.integers(T, 40 * MINUTE)
kinds = st.sampled_from(DeviceType)
activities = st.lists(st.sampled_from([MUSIC, GAME]), max_size=2, unique=True).map(tuple)


@st.composite
def devices(draw: Any, until_ms: int = T) -> tuple[DevicePresence, ...]:
    """Devices as they are at a time: each on at most two servers."""
    found = []
    for server in ("s1", "s2"):
        for name in draw(st.sets(st.sampled_from(["phone", "tablet"]))):
            since = draw(st.integers(0, until_ms))
            idle = draw(st.none() | st.integers(since, until_ms))
            gone = draw(st.none() | st.integers(since if idle is None else idle, until_ms))
            found.append(DevicePresence(server, name, draw(kinds), since, idle, gone, draw(activities)))
    return tuple(found)


@st.composite
def settings(draw: Any) -> Setting:
    """Settings with which a user is visible at T."""
    setting = Setting()
    at_ms = 0
    for value in draw(st.lists(st.sampled_from(PresenceSetting), max_size=5)):
        at_ms += draw(st.integers(1, 3 * MINUTE))
        until = draw(st.none() | st.integers(at_ms + 1, 30 * MINUTE))
        setting = setting.change_to(value, until, at_ms)
    assume(not setting.is_hidden_at(T))
    return setting


statuses = st.none() | st.builds(CustomStatus, st.just("out"), st.none(), st.none() | times)
records = st.builds(
    PresenceRecord, st.just(ANNA), devices(), settings(), statuses, st.just(()), st.none() | past, st.just(1)
)
ends = st.dictionaries(st.sampled_from(["s1", "s2"]), times)


@given(records, ends, st.none() | st.integers(T + ANNOUNCED_AFTER_MS, 40 * MINUTE), later)
def test_invisible_looks_like_a_departure_at_every_later_time(
    record: PresenceRecord, ends: dict[str, int], until: int | None, now: int
) -> None:
    hidden, departed = hide(record, T, ends, until), depart(record, T)
    assume(until is None or now < until)
    assert shown_presence(hidden, ends.get, now).shown == shown_presence(departed, ends.get, now).shown
    times = [shown_presence(each, ends.get, now).changes_at_ms for each in (hidden, departed)]
    if until is None or (times[1] is not None and times[1] < until):
        assert times[0] == times[1]


@given(records, ends, devices(40 * MINUTE), later)
def test_nothing_that_devices_do_while_hidden_is_shown(
    record: PresenceRecord, ends: dict[str, int], others: tuple[DevicePresence, ...], now: int
) -> None:
    hidden = hide(record, T, ends)
    assert shown(replace(hidden, devices=others), now, ends) == shown(hidden, now, ends)
    assert last_seen_ms(replace(hidden, devices=others), ends.get, now) == last_seen_ms(hidden, ends.get, now)


@given(records, ends, statuses, later)
def test_a_custom_status_is_shown_of_hidden_users_as_of_absent_ones(
    record: PresenceRecord, ends: dict[str, int], status: CustomStatus | None, now: int
) -> None:
    hidden, departed = hide(record, T, ends), depart(record, T)
    assert shown(replace(hidden, custom_status=status), now, ends) == shown(
        replace(departed, custom_status=status), now, ends
    )


@given(records, ends, st.integers(T + 1, 40 * MINUTE), st.integers(T, 40 * MINUTE), devices(40 * MINUTE))
def test_becoming_visible_again_shows_nothing_of_the_hidden_time(
    record: PresenceRecord, ends: dict[str, int], end: int, now: int, others: tuple[DevicePresence, ...]
) -> None:
    """Others see the same as of a user whose devices departed, and connected again at the end of the hidden time."""
    assume(now >= end)
    record = replace(record, setting=replace(record.setting.at(T), hidden_times=()))
    hidden = replace(hide(record, T, ends), devices=others)
    visible = replace(hidden, setting=hidden.setting.change_to(ONLINE, None, end))
    connected = []
    for each in others:
        gone = min((at for at in (each.gone_at_ms, ends.get(each.server)) if at is not None), default=None)
        if gone is not None and gone <= end:
            continue
        idle = None if each.idle_since_ms is None else max(each.idle_since_ms, end)
        # A use before the hidden time is known to others.
        if each.idle_since_ms is not None and each.idle_since_ms < T:
            idle = each.idle_since_ms
        connected.append(replace(each, idle_since_ms=idle))
    departed = tuple(
        replace(each, gone_at_ms=min(each.gone_at_ms or T, ends.get(each.server, T)))
        for each in depart(record, T).devices
    )
    model = replace(
        record, setting=replace(visible.setting, hidden_times=()), devices=tuple(connected), departed=departed
    )
    assert shown(visible, now, ends) == shown(model, now, ends)


@given(records, ends, times)
def test_the_time_of_the_next_change_is_exact(record: PresenceRecord, ends: dict[str, int], now: int) -> None:
    _assert_exact(record, ends, now)


@given(records, ends, later, st.none() | st.integers(T + 1, 40 * MINUTE))
def test_the_time_of_the_next_change_is_exact_for_hidden_users(
    record: PresenceRecord, ends: dict[str, int], now: int, until: int | None
) -> None:
    _assert_exact(hide(record, T, ends, until), ends, now)


def _assert_exact(record: PresenceRecord, ends: dict[str, int], now: int) -> None:
    present, changes_at = shown_presence(record, ends.get, now)
    if changes_at is not None:
        assert changes_at > now
        assert is_same(present, shown(record, changes_at - 1, ends))
        assert not is_same(present, shown(record, changes_at, ends))
    for at_ms in {*_moments_of(record, ends), now + 1_000, 50 * MINUTE}:
        if now < at_ms < (changes_at or 50 * MINUTE):
            assert is_same(present, shown(record, at_ms, ends))


def _moments_of(record: PresenceRecord, ends: dict[str, int]) -> set[int]:
    """Return all times at which anything of a record may matter."""
    setting, moments = record.setting, set(ends.values())
    for each in (*record.devices, *record.departed):
        moments |= {at for at in (each.since_ms, each.idle_since_ms, each.gone_at_ms) if at is not None}
    moments |= {at for time in setting.hidden_times for at in time} | {setting.set_at_ms}
    moments |= {at for at in (setting.until_ms, setting.before_until_ms) if at is not None}
    return moments | {at + ANNOUNCED_AFTER_MS for at in moments}


@given(records, ends, later)
def test_removing_ended_devices_does_not_change_what_others_see(
    record: PresenceRecord, ends: dict[str, int], now: int
) -> None:
    for each in (record, hide(record, T, ends)):
        left = without_ended_devices(each, ends.get, now)
        for at_ms in (now, now + 1, now + ANNOUNCED_AFTER_MS, now + 10 * MINUTE):
            assert shown_presence(left, ends.get, at_ms) == shown_presence(each, ends.get, at_ms)


@given(records, ends, later, st.lists(st.integers(1, 5 * MINUTE), max_size=6))
def test_the_last_use_never_goes_back(record: PresenceRecord, ends: dict[str, int], now: int, steps: list[int]) -> None:
    """Also when the user becomes INVISIBLE and visible again, several times."""
    seen = last_seen_ms(record, ends.get, T)
    at_ms, value = T, INVISIBLE
    for step in steps:
        at_ms += step
        record = set_to(record, value, at_ms)
        latest = last_seen_ms(record, ends.get, at_ms)
        assert seen is None or (latest is not None and latest >= seen)
        seen, value = latest, ONLINE if value is INVISIBLE else INVISIBLE


def test_a_reconnect_within_15_s_shows_nothing() -> None:
    phone = DevicePresence("s1", "phone", DeviceType.MOBILE, 0, activities=(GAME,))
    record = PresenceRecord(ANNA, (phone,))
    before = shown(record, T - 1)
    gone = replace(record, devices=(replace(phone, gone_at_ms=T),))
    back = replace(gone, devices=(*gone.devices, replace(phone, server="s2", since_ms=T + ANNOUNCED_AFTER_MS - 1)))
    for at_ms in (T, T + 1, T + ANNOUNCED_AFTER_MS - 1):
        assert is_same(shown(gone, at_ms), before)
    for at_ms in range(T + ANNOUNCED_AFTER_MS - 1, T + 2 * MINUTE, 500):
        assert is_same(shown(back, at_ms), before)
    assert shown(gone, T + ANNOUNCED_AFTER_MS).status is PresenceStatus.OFFLINE
    assert shown_presence(gone, alive, T).changes_at_ms == T + ANNOUNCED_AFTER_MS


def test_the_devices_of_a_silent_server_depart_with_it() -> None:
    record = PresenceRecord(ANNA, (DevicePresence("s1", "phone", DeviceType.WEB, 0),))
    assert shown(record, T + 14_999, {"s1": T}).status is PresenceStatus.ONLINE
    assert shown(record, T + 15_000, {"s1": T}).status is PresenceStatus.OFFLINE
    assert shown(record, T + 5 * MINUTE, {"s1": T}).last_active_at_ms == T
    moved = replace(record, devices=(*record.devices, DevicePresence("s2", "phone", DeviceType.WEB, T + 14_000)))
    for at_ms in range(T, T + MINUTE, 1_000):
        assert shown(moved, at_ms, {"s1": T}).status is PresenceStatus.ONLINE


def test_idle_needs_all_devices_that_are_there() -> None:
    idle = DevicePresence("s1", "phone", DeviceType.MOBILE, 0, idle_since_ms=MINUTE)
    used = DevicePresence("s1", "laptop", DeviceType.DESKTOP, 0)
    assert shown(PresenceRecord(ANNA, (idle,)), T).status is PresenceStatus.IDLE
    assert shown(PresenceRecord(ANNA, (idle,)), T).last_active_at_ms == MINUTE
    assert shown(PresenceRecord(ANNA, (idle, used)), T).status is PresenceStatus.ONLINE
    leaving = PresenceRecord(ANNA, (idle, replace(used, gone_at_ms=T)))
    assert shown(leaving, T + 14_999).status is PresenceStatus.ONLINE
    assert shown(leaving, T + 15_000).status is PresenceStatus.IDLE


@pytest.mark.parametrize(
    ("value", "status"), [(ONLINE, "ONLINE"), (IDLE, "IDLE"), (DND, "DND"), (INVISIBLE, "OFFLINE")]
)
def test_a_setting_is_shown_until_its_end_with_devices_only(value: PresenceSetting, status: str) -> None:
    device = DevicePresence("s1", "laptop", DeviceType.DESKTOP, 0)
    record = PresenceRecord(ANNA, (device,), Setting(value, 0, until_ms=T))
    assert shown(record, T - 1).status == status
    assert shown(record, T).status is PresenceStatus.ONLINE
    assert shown(replace(record, devices=()), T - 1).status is PresenceStatus.OFFLINE


def test_is_mobile_while_only_mobile_devices_are_there() -> None:
    phone = DevicePresence("s1", "phone", DeviceType.MOBILE, 0)
    laptop = DevicePresence("s1", "laptop", DeviceType.DESKTOP, 0)
    assert shown(PresenceRecord(ANNA, (phone,)), T).is_mobile
    assert not shown(PresenceRecord(ANNA, (phone, laptop)), T).is_mobile
    left = PresenceRecord(ANNA, (phone, replace(laptop, gone_at_ms=T)))
    assert not shown(left, T + 14_999).is_mobile and shown(left, T + 15_000).is_mobile
    assert not shown(PresenceRecord(ANNA), T).is_mobile


def test_the_setting_before_invisible_ends_in_time() -> None:
    device = DevicePresence("s1", "laptop", DeviceType.DESKTOP, 0)
    record = PresenceRecord(ANNA, (device,), Setting(DND, 0, until_ms=T + 5_000))
    hidden = hide(record, T)
    assert shown(hidden, T + 4_999).status is PresenceStatus.DND
    assert shown(hidden, T + 5_000).status is PresenceStatus.ONLINE
    assert shown(hidden, T + 15_000).status is PresenceStatus.OFFLINE


def test_the_same_setting_again_changes_nothing() -> None:
    for value in PresenceSetting:
        setting = Setting().change_to(value, None, T)
        assert setting.change_to(value, None, T + 1) == setting
    invisible = Setting().change_to(DND, None, 1).change_to(INVISIBLE, None, T)
    later = invisible.change_to(INVISIBLE, 2 * T, T + 5_000)
    assert later == replace(invisible, until_ms=2 * T) and later.before is DND


def test_earlier_hidden_times_are_bounded_and_stay_hidden() -> None:
    setting = Setting()
    for number in range(20):
        setting = setting.change_to(INVISIBLE, None, 100 * number).change_to(ONLINE, None, 100 * number + 50)
    assert len(setting.hidden_times) == MOST_HIDDEN_TIMES
    assert setting.hidden_times[0].from_ms == 0 and setting.hidden_times[-1] == HiddenTime(1_900, 1_950)
