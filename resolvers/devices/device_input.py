"""Checks of what clients say about their devices. All raise InvalidInput, which names the invalid field."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from resolvers.base.checks import LONGEST_URL, check_name
from resolvers.base.errors import InvalidInput
from resolvers.web_requests.addresses import AddressRules
from resolvers.web_requests.errors import AddressRefused
from resolvers.web_requests.public_addresses import is_ip_address, is_public
from store.devices.device import DEVICE_ID_RULE, PushAddress, PushPlatform, is_device_id
from store.devices.device_store import DeviceUpdate
from store.presence.presence_record import DeviceType

LONGEST_TOKEN = 4_096

_TOKEN = re.compile(rf"[!-~]{{1,{LONGEST_TOKEN}}}\Z")
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?\Z")
_LOCALE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*\Z")
_LONGEST_LOCALE = 35
_P256DH_BYTES = 65
_UNCOMPRESSED_POINT = 4
_AUTH_BYTES = 16


@dataclass(frozen=True, slots=True)
class WebPushKeys:
    """The subscription of a browser for Web Push (RFC 8030, RFC 8291)."""

    endpoint: str
    p256dh: str
    auth: str


@dataclass(frozen=True, slots=True)
class DeviceDraft:
    """A device as a client describes it. None leaves a field as it is."""

    type: DeviceType
    name: str | None = None
    platform: PushPlatform | None = None
    token: str | None = None
    web_push: WebPushKeys | None = None
    locale: str | None = None


def check_device_id(device: str) -> None:
    """Check the id of a device."""
    if not is_device_id(device):
        raise InvalidInput(f"id must have {DEVICE_ID_RULE}", field="id")


def check_device(draft: DeviceDraft, rules: AddressRules) -> DeviceUpdate:
    """Return the change of a device. name: "" removes it. token: "" without a platform removes the push.

    rules: for endpoints of Web Push.
    """
    if draft.name:
        check_name(draft.name, "name")
    if draft.locale is not None and not (len(draft.locale) <= _LONGEST_LOCALE and _LOCALE.match(draft.locale)):
        raise InvalidInput("locale must be a language tag, for example de-CH", field="locale")
    removes_push = draft.token == "" and draft.platform is None and draft.web_push is None
    return DeviceUpdate(
        draft.type,
        draft.name or None,
        None if removes_push else _check_push(draft, rules),
        draft.locale,
        removes_name=draft.name == "",
        removes_push=removes_push,
    )


def _check_push(draft: DeviceDraft, rules: AddressRules) -> PushAddress | None:
    if draft.platform is None:
        if draft.token is not None or draft.web_push is not None:
            raise InvalidInput("pushToken and webPush need a pushPlatform", field="pushPlatform")
        return None
    if draft.platform is PushPlatform.WEB_PUSH:
        if draft.token is not None:
            raise InvalidInput("WEB_PUSH takes webPush and no pushToken", field="pushToken")
        if draft.web_push is None:
            raise InvalidInput("WEB_PUSH needs webPush", field="webPush")
        return _check_web_push(draft.web_push, rules)
    if draft.web_push is not None:
        raise InvalidInput(f"{draft.platform} takes a pushToken and no webPush", field="webPush")
    if draft.token is None or not _TOKEN.match(draft.token):
        raise InvalidInput(
            f"{draft.platform} needs a pushToken of 1 to {LONGEST_TOKEN} characters of ASCII without white space",
            field="pushToken",
        )
    return PushAddress(draft.platform, draft.token)


def _check_web_push(keys: WebPushKeys, rules: AddressRules) -> PushAddress:
    if len(keys.endpoint) > LONGEST_URL or not _TOKEN.match(keys.endpoint):
        raise InvalidInput(
            f"endpoint must be an https URL of at most {LONGEST_URL} characters", field="webPush.endpoint"
        )
    try:
        # A name is resolved for each connection only: it may have another address then.
        address = rules.parse(keys.endpoint)
        if is_ip_address(address.host):
            is_valid = is_public(address.host, rules.allowed)
        else:
            is_valid = bool(_HOST_NAME.match(address.host))
        if not is_valid or address.url.port == 0:
            raise AddressRefused("not a public address")
    except AddressRefused as error:
        raise InvalidInput(f"endpoint must be a public https URL: {error}", field="webPush.endpoint") from error
    p256dh, auth = _decode(keys.p256dh), _decode(keys.auth)
    if len(p256dh) != _P256DH_BYTES or p256dh[0] != _UNCOMPRESSED_POINT or not _is_on_curve(p256dh):
        raise InvalidInput(
            "p256dh must be an uncompressed point of 65 bytes on the curve P-256, in base64url", field="webPush.p256dh"
        )
    if len(auth) != _AUTH_BYTES:
        raise InvalidInput("auth must be 16 bytes in base64url", field="webPush.auth")
    return PushAddress(PushPlatform.WEB_PUSH, keys.endpoint, _encode(p256dh), _encode(auth))


def _is_on_curve(point: bytes) -> bool:
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        return False
    return True


def _decode(text: str) -> bytes:
    """Return the bytes of base64url with or without padding; nothing if it is malformed."""
    bare = text.rstrip("=")
    if len(text) - len(bare) > 2 or not re.fullmatch(r"[A-Za-z0-9_-]*", bare):
        return b""
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        return b""


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
