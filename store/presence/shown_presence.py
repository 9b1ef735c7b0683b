"""The presence that others see, derived from the record, the servers that are alive, and the time (ADR 80).

Nothing else that is sent to other users is made from records. INVISIBLE is a departure of all devices (ADR 81), so it
cannot be distinguished from a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from store.base.ids import UserId
from store.presence.presence_record import (
    Activity,
    CustomStatus,
    DevicePresence,
    DeviceType,
    PresenceRecord,
    PresenceSetting,
    Setting,
)

ANNOUNCED_AFTER_MS = 15_000
"""Time from a departure until it is shown. A device that reconnects within it was never away for others."""

MAX_ACTIVITIES = 5
"""Activities of a user that are shown, over all devices."""

_MINUTE_MS = 60_000

FindEnd = Callable[[str], int | None]
"""Returns the time (ms) at which a server ended, or None while it is alive."""


class PresenceStatus(StrEnum):
    """The status that others see."""

    ONLINE = "ONLINE"
    IDLE = "IDLE"
    DND = "DND"
    OFFLINE = "OFFLINE"


@dataclass(frozen=True, slots=True)
class ShownPresence:
    """The presence of a user as others see it. `last_active_at_ms`: to the minute; None: never seen."""

    user: UserId
    status: PresenceStatus = PresenceStatus.OFFLINE
    is_mobile: bool = False
    custom_status: CustomStatus | None = None
    activities: tuple[Activity, ...] = ()
    last_active_at_ms: int | None = None


class ShownUntil(NamedTuple):
    """The presence that others see.

    `changes_at_ms`: when it changes by itself; None: not before the record changes, or a server ends.
    """

    shown: ShownPresence
    changes_at_ms: int | None


class _ShownDevice(NamedTuple):
    """A device that is there, or whose departure is not shown yet (`gone_at_ms`)."""

    device: DevicePresence
    gone_at_ms: int | None


def shown_presence(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> ShownUntil:
    """Return what others see of a user at a time. Pure: all servers that know the same derive the same."""
    setting = record.setting.at(now_ms)
    is_hidden = setting.value is PresenceSetting.INVISIBLE
    devices, last_seen = [], record.seen_ms
    for device in record.devices:
        if is_hidden and device.since_ms >= setting.set_at_ms:
            continue
        gone_at = _first(device.gone_at_ms, find_end(device.server), setting.set_at_ms if is_hidden else None)
        last_seen = _last(last_seen, _first(device.idle_since_ms, gone_at, now_ms))
        if gone_at is None or now_ms < gone_at + ANNOUNCED_AFTER_MS:
            devices.append(_ShownDevice(device, gone_at))
    custom_status = record.custom_status
    ends = custom_status.expires_at_ms if custom_status is not None else None
    shown = ShownPresence(
        record.user,
        _status(devices, setting),
        bool(devices) and all(shown.device.type is DeviceType.MOBILE for shown in devices),
        custom_status if ends is None or now_ms < ends else None,
        _activities(devices),
        last_seen - last_seen % _MINUTE_MS if last_seen is not None else None,
    )
    changes = [setting.until_ms, ends]
    changes += [shown.gone_at_ms + ANNOUNCED_AFTER_MS for shown in devices if shown.gone_at_ms is not None]
    return ShownUntil(shown, min((at for at in changes if at is not None and at > now_ms), default=None))


def is_same(shown: ShownPresence, other: ShownPresence) -> bool:
    """Return whether there is nothing to announce: only `last_active_at_ms`, which passes by itself, may differ."""
    return (
        shown.status is other.status
        and shown.is_mobile == other.is_mobile
        and shown.custom_status == other.custom_status
        and shown.activities == other.activities
    )


def _status(devices: Iterable[_ShownDevice], setting: Setting) -> PresenceStatus:
    value = setting.before if setting.value is PresenceSetting.INVISIBLE else setting.value
    is_idle = {shown.device.idle_since_ms is not None for shown in _newest_connections(devices)}
    if not is_idle:
        return PresenceStatus.OFFLINE
    if value is PresenceSetting.DND:
        return PresenceStatus.DND
    return PresenceStatus.IDLE if value is PresenceSetting.IDLE or is_idle == {True} else PresenceStatus.ONLINE


def _newest_connections(devices: Iterable[_ShownDevice]) -> Iterable[_ShownDevice]:
    """Return each device once: where it is, or else where it was last."""
    newest: dict[str, _ShownDevice] = {}
    for shown in sorted(devices, key=lambda shown: (shown.gone_at_ms is None, shown.device.since_ms)):
        newest[shown.device.device] = shown
    return newest.values()


def _activities(devices: Iterable[_ShownDevice]) -> tuple[Activity, ...]:
    found = [each for shown in _newest_connections(devices) for each in shown.device.activities]
    return tuple(dict.fromkeys(found))[:MAX_ACTIVITIES]


def _first(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


def _last(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)
