"""The presence settings of users with devices on this process: who of them is INVISIBLE (ADR 81)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from store.base.ids import UserId
from store.presence.presence_record import PresenceRecord
from store.presence.presence_store import ChangedPresence
from store.presence.record_codec import decode_record, encode_record
from subscriptions.realtime.bus import Bus

_FRAME = "presence_settings"


class OwnSettings:
    """The newest known records of users with devices here. A changed setting reaches all servers with such devices.

    A change is a frame to these servers. After lost frames, each server writes its devices again, and so reads the
    settings.
    """

    def __init__(self, server: str, bus: Bus) -> None:
        self._server = server
        self._bus = bus
        self._known: dict[UserId, PresenceRecord | None] = {}
        """None until the first record of a user is read: nothing about the user is shown until then."""
        self._on_change: list[Callable[[Collection[UserId]], None]] = []
        bus.on_frame(_FRAME, self._receive)

    def find(self, user: UserId) -> PresenceRecord | None:
        """Return the newest known record of a user; None if none was read yet. Its devices may be out of date."""
        return self._known.get(user)

    def on_change(self, call: Callable[[Collection[UserId]], None]) -> None:
        """Make `call` with users whose settings were changed, on any server. It must not block."""
        self._on_change.append(call)

    def add(self, user: UserId) -> None:
        """Keep the setting of a user, who has a device here now. Idempotent."""
        self._known.setdefault(user, None)

    def note(self, record: PresenceRecord) -> None:
        """Note a record of a user with devices here. An older record has no effect."""
        if record.user in self._known:
            known = self._known[record.user]
            if known is None or record.version >= known.version:
                self._known[record.user] = record

    def drop(self, user: UserId) -> None:
        """Forget a user who has no devices here any more."""
        self._known.pop(user, None)

    def announce(self, changes: Collection[ChangedPresence]) -> None:
        """Note changed records, and send those with a changed setting to the other servers with devices of the user."""
        frames: dict[str, list[Any]] = {}
        for change in changes:
            record = change.record
            if change.before is not None and record.setting == change.before.setting:
                continue
            form = encode_record(record)
            for server in {device.server for device in record.devices} | {self._server}:
                frames.setdefault(server, []).append(form)
        if frames:
            self._bus.send_frames(_FRAME, frames)

    def _receive(self, forms: Collection[Any]) -> None:
        records = [decode_record(form) for form in forms]
        for record in records:
            self.note(record)
        for call in self._on_change:
            call([record.user for record in records])
