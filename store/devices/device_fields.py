"""Stored names of the fields of `devices` and `push_tokens`, and the devices that rows describe."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from typing import Any

from store.base.ids import UserId
from store.base.known_values import known_value
from store.devices.device import Device, PushAddress, PushPlatform
from store.mongo.client import Document
from store.presence.presence_record import DeviceType


class DeviceField:
    """Stored names of the fields of `devices`, sharded by ID."""

    ID = "_id"
    """`<user> <device>`. The id of a device may contain spaces, and a user id does not."""
    TYPE = "ty"
    NAME = "n"
    CREATED = "c"
    """When the row was made (ms)."""
    SEEN = "s"
    """When the device was last connected, as far as the row knows (ms)."""
    PLATFORM = "pp"
    """Service that takes its pushes. Absent: it has no push, and none of the next three."""
    TOKEN = "pt"
    P256DH = "pk"
    AUTH = "pa"
    LOCALE = "l"
    PUSHED_USER = "us"
    """The user, in rows with a push address: an index finds the devices of many users."""


class PushTokenField:
    """Stored names of the fields of `push_tokens`, sharded by ID: the one device that has a push token."""

    ID = "_id"
    """Platform, and hash of the token: tokens may be longer than the key of an index should be."""
    OWNER = "o"
    """ID of the row of the device."""


_F = DeviceField

PUSH_FIELDS = (_F.PLATFORM, _F.TOKEN, _F.P256DH, _F.AUTH, _F.PUSHED_USER)


def device_from(row: Document) -> Device:
    """Return the device of a row."""
    user, _, device = row[_F.ID].partition(" ")
    return Device(
        UserId(user),
        device,
        known_value(DeviceType, row[_F.TYPE], DeviceType.WEB),
        row[_F.CREATED],
        row[_F.SEEN],
        row.get(_F.NAME),
        push_from(row),
        row.get(_F.LOCALE),
    )


def push_from(row: Document) -> PushAddress | None:
    """Return where pushes for a device are sent; None if it has none, or if only later versions know the service."""
    platform = known_value(PushPlatform, row.get(_F.PLATFORM), None)
    if platform is None:
        return None
    return PushAddress(platform, row[_F.TOKEN], row.get(_F.P256DH), row.get(_F.AUTH))


def push_fields(user: UserId, push: PushAddress) -> dict[str, Any]:
    """Return the fields of a row of a user's device that describe where pushes are sent."""
    fields = {
        _F.PLATFORM: push.platform,
        _F.TOKEN: push.token,
        _F.P256DH: push.p256dh,
        _F.AUTH: push.auth,
        _F.PUSHED_USER: user,
    }
    return {name: value for name, value in fields.items() if value is not None}


def push_token_row_id(push: PushAddress) -> str:
    """Return the `_id` of the row that says which device has a push token."""
    digest = hashlib.sha256(push.token.encode()).digest()
    return f"{push.platform} {urlsafe_b64encode(digest)[:-1].decode()}"
