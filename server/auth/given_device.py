"""The device that the payload of a connection_init names (ADR 82)."""

from __future__ import annotations

from typing import Any

from resolvers.base.errors import InvalidInput
from store.devices.device import DEVICE_ID_RULE, is_device_id
from store.presence.presence_record import DeviceType
from subscriptions.presence.connected_devices import GivenDevice

DEVICE_ID_KEY = "deviceId"
DEVICE_TYPE_KEY = "deviceType"


def parse_device(payload: dict[str, Any]) -> GivenDevice:
    """Return the device of a connection. null is as if it was left out. Raises InvalidInput."""
    device, type = payload.get(DEVICE_ID_KEY), payload.get(DEVICE_TYPE_KEY)
    if device is not None and not (isinstance(device, str) and is_device_id(device)):
        raise InvalidInput(f"{DEVICE_ID_KEY} must have {DEVICE_ID_RULE}", field=DEVICE_ID_KEY)
    if type is None:
        return GivenDevice(device)
    if not isinstance(type, str) or type not in DeviceType.__members__:
        raise InvalidInput(f"{DEVICE_TYPE_KEY} must be one of {', '.join(DeviceType)}", field=DEVICE_TYPE_KEY)
    return GivenDevice(device, DeviceType(type))
