"""The device that a connection_init names."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.base.errors import InvalidInput
from server.auth.given_device import parse_device
from store.presence.presence_record import DeviceType
from subscriptions.presence.connected_devices import GivenDevice


@pytest.mark.parametrize(
    ("payload", "device"),
    [
        ({}, GivenDevice(None, DeviceType.WEB)),
        ({"deviceId": None, "deviceType": None}, GivenDevice(None, DeviceType.WEB)),
        ({"deviceId": "d_1"}, GivenDevice("d_1", DeviceType.WEB)),
        ({"deviceType": "MOBILE"}, GivenDevice(None, DeviceType.MOBILE)),
        ({"deviceId": "Ann's Räuchermännchen 📱", "deviceType": "DESKTOP"}, None),
        ({"deviceId": "x" * 64}, GivenDevice("x" * 64, DeviceType.WEB)),
    ],
)
def test_a_device_is_named_by_the_payload(payload: dict[str, Any], device: GivenDevice | None) -> None:
    assert parse_device(payload) == (device or GivenDevice(payload["deviceId"], DeviceType.DESKTOP))


@pytest.mark.parametrize("device", ["", "x" * 65, "a\nb", "a\tb", "\x00", "\ud800", "\u200b", 7, True, [], {}])
def test_a_malformed_device_id_is_refused(device: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_device({"deviceId": device})
    assert refusal.value.field == "deviceId" and "1 to 64 printable" in refusal.value.message


@pytest.mark.parametrize("type", ["", "web", "TABLET", "DeviceType.WEB", 1, ["WEB"], {}])
def test_an_unknown_device_type_is_refused(type: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_device({"deviceId": "d_1", "deviceType": type})
    assert refusal.value.field == "deviceType" and "WEB, DESKTOP, MOBILE" in refusal.value.message
