"""The forms of presence records in Redis, MongoDB and frames."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

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
from store.presence.record_codec import decode_record, encode_record
from tests.store.presence.stores import ANNA

ONLINE, IDLE, DND, INVISIBLE = PresenceSetting

GO = Activity(ActivityType.COMPETING, "Go", "d", "s", 4, 5)
FULL = PresenceRecord(
    ANNA,
    (
        DevicePresence("s1", "phone", DeviceType.MOBILE, 1, 2, 3, (GO,)),
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
