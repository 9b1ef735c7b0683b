"""The presence settings of users with devices on this process: who of them is INVISIBLE (ADR 81)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.ids import UserId
from store.presence.presence_record import PresenceRecord, PresenceSetting, Setting
from store.presence.presence_store import ChangedPresence
from subscriptions.realtime.bus import Bus

_FRAME = "presence_settings"


class _KnownSetting(NamedTuple):
    """A setting, and the version of the record that had it."""

    version: int
    value: PresenceSetting
    until_ms: int | None


_UNKNOWN = _KnownSetting(-1, PresenceSetting.INVISIBLE, None)
"""Until the first record of a user is read, nothing about the user is shown."""


class OwnSettings:
    """The newest known settings of users with devices here. A changed setting reaches all servers with such devices.

    A change is a frame to these servers. After lost frames, each server writes its devices again, and so reads the
    settings.
    """

    def __init__(self, server: str, bus: Bus, clock: Clock) -> None:
        self._server = server
        self._bus = bus
        self._clock = clock
        self._known: dict[UserId, _KnownSetting] = {}
        bus.on_frame(_FRAME, self._receive)

    def is_hidden(self, user: UserId) -> bool:
        """Return whether a user is INVISIBLE. True for users whose setting was not read yet."""
        known = self._known.get(user)
        if known is None:
            return True
        return Setting(known.value, until_ms=known.until_ms).is_hidden_at(self._clock.now_ms())

    def add(self, user: UserId) -> None:
        """Keep the setting of a user, who has a device here now. Idempotent."""
        self._known.setdefault(user, _UNKNOWN)

    def note(self, record: PresenceRecord) -> None:
        """Note a record of a user with devices here. An older record has no effect."""
        self._note(record.user, _setting_of(record))

    def drop(self, user: UserId) -> None:
        """Forget a user who has no devices here any more."""
        self._known.pop(user, None)

    def announce(self, changes: Collection[ChangedPresence]) -> None:
        """Note changed records, and send those with a changed setting to the other servers with devices of the user."""
        frames: dict[str, list[Sequence[Any]]] = {}
        for change in changes:
            record = change.record
            if change.before is not None and record.setting == change.before.setting:
                continue
            row = (record.user, *_setting_of(record))
            for server in {device.server for device in record.devices} | {self._server}:
                frames.setdefault(server, []).append(row)
        if frames:
            self._bus.send_frames(_FRAME, frames)

    def _receive(self, rows: Sequence[Sequence[Any]]) -> None:
        for user, version, value, until_ms in rows:
            self._note(UserId(user), _KnownSetting(version, PresenceSetting(value), until_ms))

    def _note(self, user: UserId, setting: _KnownSetting) -> None:
        known = self._known.get(user)
        if known is not None and setting.version >= known.version:
            self._known[user] = setting


def _setting_of(record: PresenceRecord) -> _KnownSetting:
    return _KnownSetting(record.version, record.setting.value, record.setting.until_ms)
