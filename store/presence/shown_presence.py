"""The presence that others see, derived from the record, the servers that are alive, and the time (ADR 80).

Nothing else that is sent to other users is made from records. INVISIBLE is a departure of all devices (ADR 81), so it
cannot be distinguished from a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from store.base.ids import UserId
from store.presence.presence_record import (
    Activity,
    CustomStatus,
    DevicePresence,
    DeviceType,
    HiddenTime,
    PresenceRecord,
    PresenceSetting,
)

ANNOUNCED_AFTER_MS = 15_000
"""Time from a departure until it is shown. A device that reconnects within it was never away for others."""

KEPT_AFTER_MS = 60_000
"""Time from the end of a device until it may be removed from the record."""

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


class _VisibleDevice(NamedTuple):
    """A device as others may know it, without what it did while its user was INVISIBLE.

    Attributes:
        device: The device.
        gone_at_ms: When it departed; None: it is there.
        idle_since_ms: When it was last used, if it is idle, or was when it departed; None: it is in use.
    """

    device: DevicePresence
    gone_at_ms: int | None
    idle_since_ms: int | None


def shown_presence(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> ShownUntil:
    """Return what others see of a user at a time. Pure: all servers that know the same derive the same."""
    shown = _shown_at(record, find_end, now_ms)
    for at_ms in _possible_changes(record, find_end, now_ms):
        if not is_same(shown, _shown_at(record, find_end, at_ms)):
            return ShownUntil(shown, at_ms)
    return ShownUntil(shown, None)


def is_same(shown: ShownPresence, other: ShownPresence) -> bool:
    """Return whether there is nothing to announce: only `last_active_at_ms`, which passes by itself, may differ."""
    return (
        shown.status is other.status
        and shown.is_mobile == other.is_mobile
        and shown.custom_status == other.custom_status
        and shown.activities == other.activities
    )


def is_visibly_connected(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> bool:
    """Return whether a device is connected that others may know of.

    Unlike the status, it ends at the moment of a departure, or of becoming INVISIBLE.
    """
    return any(each.gone_at_ms is None for each in _visible_devices(record, find_end, now_ms))


def last_seen_ms(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> int | None:
    """Return when others last saw a user there, at a time; None: never."""
    return _last_seen(record.seen_ms, _visible_devices(record, find_end, now_ms), now_ms)


def departed_devices(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> tuple[DevicePresence, ...]:
    """Return the devices of a user who becomes INVISIBLE at a time, as if they departed then."""
    latest: dict[tuple[str, str], DevicePresence] = {}
    for device, gone_at_ms, idle_since_ms in sorted(_visible_devices(record, find_end, now_ms), key=_by_departure):
        gone = replace(device, gone_at_ms=_first(gone_at_ms, now_ms), idle_since_ms=idle_since_ms)
        latest[device.server, device.device] = gone
    return tuple(latest.values())


def without_ended_devices(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> PresenceRecord:
    """Return a record without the devices that ended more than a minute ago. Others see no difference.

    The record itself if there are none.
    """
    before_ms = now_ms - KEPT_AFTER_MS
    devices = tuple(each for each in record.devices if not _has_ended(each, find_end, before_ms))
    departed = tuple(each for each in record.departed if not _has_ended(each, find_end, before_ms))
    if devices == record.devices and departed == record.departed:
        return record
    ended = [
        each for each in _visible_devices(record, find_end, now_ms) if _has_ended(each.device, find_end, before_ms)
    ]
    return replace(record, devices=devices, departed=departed, seen_ms=_last_seen(record.seen_ms, ended, now_ms))


def _has_ended(device: DevicePresence, find_end: FindEnd, at_ms: int) -> bool:
    end = _first(device.gone_at_ms, find_end(device.server))
    return end is not None and end < at_ms


def _shown_at(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> ShownPresence:
    devices = _visible_devices(record, find_end, now_ms)
    shown = _newest_connections(
        each for each in devices if each.gone_at_ms is None or now_ms < each.gone_at_ms + ANNOUNCED_AFTER_MS
    )
    seen_ms = _last_seen(record.seen_ms, devices, now_ms)
    activities = (each for visible in shown for each in visible.device.activities)
    return ShownPresence(
        record.user,
        _status(shown, record.setting.shown_at(now_ms)),
        bool(shown) and all(visible.device.type is DeviceType.MOBILE for visible in shown),
        record.custom_status_at(now_ms),
        tuple(dict.fromkeys(activities))[:MAX_ACTIVITIES],
        seen_ms - seen_ms % _MINUTE_MS if seen_ms is not None else None,
    )


def _possible_changes(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> list[int]:
    """Return the later times at which something may change by itself, in order."""
    setting, status = record.setting, record.custom_status
    times = [setting.until_ms, setting.before_until_ms, status.expires_at_ms if status is not None else None]
    departures = [
        end
        for each in (*record.devices, *record.departed)
        if (end := _first(each.gone_at_ms, find_end(each.server))) is not None
    ]
    times += [at_ms + ANNOUNCED_AFTER_MS for at_ms in departures]
    return sorted({at_ms for at_ms in times if at_ms is not None and at_ms > now_ms})


def _visible_devices(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> list[_VisibleDevice]:
    """Return the devices without what they did while the user was INVISIBLE.

    During that time `departed` has them. A device that is still there at its end reconnects for others at that moment.
    """
    departed = [_VisibleDevice(each, each.gone_at_ms, each.idle_since_ms) for each in record.departed]
    setting = record.setting.at(now_ms)
    if setting.value is PresenceSetting.INVISIBLE:
        return departed
    visible = (_visible_device(each, find_end(each.server), setting.hidden_times) for each in record.devices)
    return [*(each for each in visible if each is not None), *departed]


def _visible_device(
    device: DevicePresence, server_end_ms: int | None, hidden: Sequence[HiddenTime]
) -> _VisibleDevice | None:
    """Return a device without what it did in hidden times that are over; None: it ended in one, or before."""
    gone_at, idle_since = _first(device.gone_at_ms, server_end_ms), device.idle_since_ms
    for from_ms, to_ms in hidden:
        if gone_at is not None and gone_at <= to_ms:
            return None
        if idle_since is not None and from_ms <= idle_since < to_ms:
            idle_since = to_ms
    return _VisibleDevice(device, gone_at, idle_since)


def _status(devices: Sequence[_VisibleDevice], setting: PresenceSetting) -> PresenceStatus:
    if not devices:
        return PresenceStatus.OFFLINE
    if setting is PresenceSetting.DND:
        return PresenceStatus.DND
    is_idle = setting is PresenceSetting.IDLE or all(each.idle_since_ms is not None for each in devices)
    return PresenceStatus.IDLE if is_idle else PresenceStatus.ONLINE


def _newest_connections(devices: Iterable[_VisibleDevice]) -> Sequence[_VisibleDevice]:
    """Return each device once: where it is, or else where it was last."""
    newest: dict[str, _VisibleDevice] = {}
    for each in sorted(devices, key=_by_departure):
        newest[each.device.device] = each
    return list(newest.values())


def _by_departure(visible: _VisibleDevice) -> tuple[bool, int | None, int, str]:
    """Return the sort key for devices: those that are there come last, the newest connection at the end."""
    gone_at_ms, device = visible.gone_at_ms, visible.device
    return gone_at_ms is None, gone_at_ms, device.since_ms, device.server


def _last_seen(seen_ms: int | None, devices: Iterable[_VisibleDevice], now_ms: int) -> int | None:
    last_uses = (_first(each.idle_since_ms, each.gone_at_ms, now_ms) for each in devices)
    return max((time for time in (seen_ms, *last_uses) if time is not None), default=None)


def _first(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)
