"""Other servers learn exactly those changes of presence that others see, now or later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store.base.ids import UserId
from store.presence.presence_record import (
    Activity,
    ActivityType,
    CustomStatus,
    DevicePresence,
    DeviceType,
    PresenceRecord,
    PresenceSetting,
    Setting,
)
from subscriptions.presence.visible_changes import record_to_send, shows_the_same

NOW = 1_000_000_000
WEB = DevicePresence("one", "web", DeviceType.WEB, NOW - 60_000)
PHONE = DevicePresence("two", "phone", DeviceType.MOBILE, NOW - 50_000)
GAME = (Activity(ActivityType.PLAYING, "chess"),)


def record(*devices: DevicePresence, **more: object) -> PresenceRecord:
    return PresenceRecord(UserId("ann"), devices, **more)  # type: ignore[arg-type]


def alive(server: str) -> None:
    return None


def hidden(until_ms: int | None = None) -> Setting:
    return Setting(PresenceSetting.INVISIBLE, NOW - 20_000, until_ms)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(record(), record(WEB), id="online"),
        pytest.param(record(), record(replace(WEB, gone_at_ms=NOW - 16_000)), id="last use of a device that has gone"),
        pytest.param(
            record(WEB, setting=Setting(PresenceSetting.DND, NOW)),
            record(replace(WEB, idle_since_ms=NOW), setting=Setting(PresenceSetting.DND, NOW)),
            id="no longer used while DND",
        ),
        pytest.param(record(WEB), record(replace(WEB, idle_since_ms=NOW)), id="idle"),
        pytest.param(record(WEB), record(replace(WEB, gone_at_ms=NOW)), id="departure"),
        pytest.param(record(WEB), record(replace(WEB, activities=GAME)), id="activity"),
        pytest.param(record(PHONE), record(PHONE, WEB), id="no longer mobile only"),
        pytest.param(record(WEB), record(WEB, setting=Setting(PresenceSetting.DND, NOW)), id="setting"),
        pytest.param(
            record(WEB, setting=Setting(PresenceSetting.DND, NOW)),
            record(WEB, setting=Setting(PresenceSetting.DND, NOW, NOW + 60_000)),
            id="end of a setting",
        ),
        pytest.param(record(), record(custom_status=CustomStatus("away", None)), id="status"),
        pytest.param(
            record(custom_status=CustomStatus("away", None)),
            record(custom_status=CustomStatus("away", None, NOW + 60_000)),
            id="end of a status",
        ),
        pytest.param(record(WEB, setting=hidden()), record(WEB, setting=hidden(NOW + 60_000)), id="end of hiding"),
        pytest.param(record(WEB), record(WEB, replace(WEB, server="two", device="other")), id="another server"),
    ],
)
def test_changes_that_others_see_now_or_later_are_sent(before: PresenceRecord, after: PresenceRecord) -> None:
    assert not shows_the_same(before, after, alive, NOW)
    assert not shows_the_same(after, before, alive, NOW)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(record(WEB), record(WEB, replace(WEB, device="tab")), id="a second device on the same server"),
        pytest.param(
            record(WEB, replace(WEB, device="tab")),
            record(WEB, replace(WEB, device="tab", gone_at_ms=NOW)),
            id="the end of a second device",
        ),
        pytest.param(record(WEB), record(replace(WEB, since_ms=NOW)), id="another connection"),
        pytest.param(record(WEB), record(WEB, seen_ms=NOW), id="the last use"),
        pytest.param(record(setting=hidden()), record(WEB, setting=hidden()), id="a device of an invisible user"),
        pytest.param(
            record(setting=hidden(NOW + 60_000)),
            record(WEB, setting=hidden(NOW + 60_000)),
            id="a device of a user who will be visible",
        ),
        pytest.param(record(), record(custom_status=CustomStatus("away", None, NOW - 1)), id="a status that has ended"),
    ],
)
def test_changes_that_others_never_see_are_not_sent(before: PresenceRecord, after: PresenceRecord) -> None:
    assert shows_the_same(before, after, alive, NOW)
    assert shows_the_same(after, before, alive, NOW)


def test_frames_have_no_devices_of_invisible_users() -> None:
    departed = (replace(PHONE, gone_at_ms=NOW - 20_000),)
    sent = record_to_send(record(WEB, PHONE, setting=hidden(), departed=departed), NOW)
    assert (sent.devices, sent.departed) == ((), departed)
    assert record_to_send(record(WEB), NOW) == record(WEB)
