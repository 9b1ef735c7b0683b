"""Decides which changes of presence records other servers have to learn, and what of them (ADR 80, 81)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from store.presence.presence_record import PresenceRecord
from store.presence.shown_presence import FindEnd, ShownPresence, is_same, shown_presence

_MOST_STEPS = 12
"""Changes by itself of one record that are compared: the ends of settings and status, and departures of devices."""

_LATER_MS = 3_600_000
"""Time after the last change by itself at which the times of the last use are compared."""


class _Step(NamedTuple):
    """The presence that is shown from a time on."""

    at_ms: int
    shown: ShownPresence


def shows_the_same(record: PresenceRecord, other: PresenceRecord, find_end: FindEnd, now_ms: int) -> bool:
    """Return whether two records of a user show others the same from now on, whichever servers end.

    Servers that know one of the records need not learn the other then. Each server's devices are compared alone too:
    when servers end, no frame is sent, so the devices that remain must show the same. `last_active_at_ms` may differ
    only while it passes by itself: a user with the setting DND who stops using a device is a difference. Pure.
    """
    if _hidden_until_ms(record, now_ms) != _hidden_until_ms(other, now_ms):
        return False
    record, other = record_to_send(record, now_ms), record_to_send(other, now_ms)
    servers = {device.server for each in (record, other) for device in each.devices}
    if not _same_steps(record, other, find_end, now_ms):
        return False
    return len(servers) < 2 or all(
        _same_steps(record, other, _only(server, find_end, now_ms), now_ms) for server in servers
    )


def record_to_send(record: PresenceRecord, now_ms: int) -> PresenceRecord:
    """Return a record without what the devices of an INVISIBLE user do.

    When the setting ends by itself, servers that got the record this way have to read the devices.
    """
    return replace(record, devices=()) if record.setting.is_hidden_at(now_ms) else record


def _hidden_until_ms(record: PresenceRecord, now_ms: int) -> int | None:
    """Return the time at which an INVISIBLE user's devices have to be read; None: at no time."""
    return record.setting.until_ms if record.setting.is_hidden_at(now_ms) else None


def _only(server: str, find_end: FindEnd, now_ms: int) -> FindEnd:
    """Return the ends of servers if all but one ended now."""

    def find(asked: str) -> int | None:
        end = find_end(asked)
        return now_ms if end is None and asked != server else end

    return find


def _same_steps(record: PresenceRecord, other: PresenceRecord, find_end: FindEnd, now_ms: int) -> bool:
    steps, others = _list_steps(record, find_end, now_ms), _list_steps(other, find_end, now_ms)
    if len(steps) != len(others) or any(
        step.at_ms != another.at_ms or not is_same(step.shown, another.shown)
        for step, another in zip(steps, others, strict=True)
    ):
        return False
    # If a device is in use, the time of the last use is then the present in both.
    later_ms = steps[-1].at_ms + _LATER_MS
    return all(
        shown_presence(record, find_end, at_ms).shown.last_active_at_ms
        == shown_presence(other, find_end, at_ms).shown.last_active_at_ms
        for at_ms in (now_ms, later_ms)
    )


def _list_steps(record: PresenceRecord, find_end: FindEnd, now_ms: int) -> list[_Step]:
    """Return what is shown now, and after each visible change that happens by itself."""
    steps: list[_Step] = []
    at_ms: int | None = now_ms
    while at_ms is not None and len(steps) < _MOST_STEPS:
        shown, changes_at_ms = shown_presence(record, find_end, at_ms)
        if not steps or not is_same(steps[-1].shown, shown):
            steps.append(_Step(at_ms, shown))
        at_ms = changes_at_ms
    return steps
