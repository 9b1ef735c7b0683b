"""A device of a user: the row that its first connection makes (ADR 82)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.base.ids import UserId
from store.presence.presence_record import DeviceType

MAX_DEVICES = 20
"""Rows of one user."""

LONGEST_DEVICE_ID = 64

DEVICE_ID_RULE = f"1 to {LONGEST_DEVICE_ID} printable characters"
"""The form of the id of a device, for error messages."""


def is_device_id(text: str) -> bool:
    """Return whether text has the form of the id of a device. Printable is as in user ids; spaces are allowed."""
    return 0 < len(text) <= LONGEST_DEVICE_ID and text.isprintable()


class PushPlatform(StrEnum):
    """The service that takes pushes for a device."""

    APNS = "APNS"
    FCM = "FCM"
    WEB_PUSH = "WEB_PUSH"


@dataclass(frozen=True, slots=True)
class PushAddress:
    """Where pushes for a device are sent.

    Attributes:
        platform: The service.
        token: The token of APNs or FCM, or the endpoint of Web Push.
        p256dh: Web Push: public key of the client, base64url without padding.
        auth: Web Push: secret of the client, base64url without padding.
    """

    platform: PushPlatform
    token: str
    p256dh: str | None = None
    auth: str | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a user, as it is stored.

    Attributes:
        user: The user. The id of a device has a meaning only together with its user.
        id: The client's id of it.
        type: Its kind.
        created_ms: When the row was made.
        seen_ms: When it was last connected, as far as the row knows: to about an hour while it is connected.
        name: The name that the user gave it.
        push: Where pushes are sent; None: nowhere.
        locale: The language of pushes, as the client named it.
    """

    user: UserId
    id: str
    type: DeviceType
    created_ms: int
    seen_ms: int
    name: str | None = None
    push: PushAddress | None = None
    locale: str | None = None
