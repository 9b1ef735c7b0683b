"""Stored and sent forms of presence records: JSON objects with short names.

Unknown names and kinds are ignored, so that servers of two neighbouring versions understand each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from store.base.ids import UserId
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

Json = dict[str, Any]

_DEVICE_TYPES = {kind.value: kind for kind in DeviceType}
_SETTINGS = {kind.value: kind for kind in PresenceSetting}
_ACTIVITY_TYPES = {kind.value: kind for kind in ActivityType}


def encode_record(record: PresenceRecord) -> Json:
    """Return the form of a record on the bus."""
    return _without_none(
        u=record.user,
        v=record.version,
        s=encode_setting(record.setting) or None,
        c=encode_status(record.custom_status),
        n=record.seen_ms,
        d=_encode_devices(record.devices) or None,
        q=_encode_devices(record.departed) or None,
    )


def decode_record(form: Mapping[str, Any]) -> PresenceRecord:
    """Return the record that `encode_record` has encoded, also by a neighbouring version."""
    return PresenceRecord(
        UserId(form["u"]),
        _decode_devices(form.get("d", ())),
        decode_setting(form.get("s", {})),
        decode_status(form.get("c")),
        _decode_devices(form.get("q", ())),
        form.get("n"),
        form["v"],
    )


def encode_device(device: DevicePresence) -> Json:
    """Return the form of a device, without its server and id."""
    return _without_none(
        t=device.type.value,
        s=device.since_ms,
        i=device.idle_since_ms,
        g=device.gone_at_ms,
        a=[_encode_activity(each) for each in device.activities] or None,
    )


def decode_device(server: str, device: str, form: Mapping[str, Any]) -> DevicePresence:
    """Return a device."""
    return DevicePresence(
        server,
        device,
        _DEVICE_TYPES.get(form.get("t", ""), DeviceType.WEB),
        form["s"],
        form.get("i"),
        form.get("g"),
        _decode_activities(form.get("a", ())),
    )


def encode_setting(setting: Setting) -> Json:
    """Return the form of a setting; empty: it was never set."""
    default = Setting()
    return _without_none(
        v=setting.value.value if setting.value is not default.value else None,
        a=setting.set_at_ms or None,
        u=setting.until_ms,
        b=setting.before.value if setting.before is not default.before else None,
        x=setting.before_until_ms,
        h=[list(time) for time in setting.hidden_times] or None,
    )


def decode_setting(form: Mapping[str, Any]) -> Setting:
    """Return a setting."""
    return Setting(
        _SETTINGS.get(form.get("v", ""), PresenceSetting.ONLINE),
        form.get("a", 0),
        form.get("u"),
        _SETTINGS.get(form.get("b", ""), PresenceSetting.ONLINE),
        form.get("x"),
        tuple(HiddenTime(*time) for time in form.get("h", ())),
    )


def encode_status(status: CustomStatus | None) -> Json | None:
    """Return the form of a custom status."""
    return None if status is None else _without_none(t=status.text, e=status.emoji, x=status.expires_at_ms)


def decode_status(form: Mapping[str, Any] | None) -> CustomStatus | None:
    """Return a custom status."""
    return None if form is None else CustomStatus(form.get("t"), form.get("e"), form.get("x"))


def _encode_devices(devices: Sequence[DevicePresence]) -> list[Json]:
    return [encode_device(each) | {"sv": each.server, "id": each.device} for each in devices]


def _decode_devices(forms: Sequence[Mapping[str, Any]]) -> tuple[DevicePresence, ...]:
    return tuple(decode_device(form["sv"], form["id"], form) for form in forms)


def _encode_activity(activity: Activity) -> Json:
    return _without_none(
        t=activity.type.value,
        n=activity.name,
        d=activity.details,
        s=activity.state,
        b=activity.started_at_ms,
        x=activity.ends_at_ms,
    )


def _decode_activities(forms: Sequence[Mapping[str, Any]]) -> tuple[Activity, ...]:
    return tuple(
        Activity(_ACTIVITY_TYPES[form["t"]], form["n"], form.get("d"), form.get("s"), form.get("b"), form.get("x"))
        for form in forms
        if form["t"] in _ACTIVITY_TYPES
    )


def _without_none(**fields: Any) -> Json:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
