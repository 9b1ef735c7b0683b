"""All event kinds on shared clocks. A kind is known to the bus and to replays once it is listed here."""

from __future__ import annotations

import orjson

from subscriptions.realtime.events.base import Event, Fields, LogEntry, ReplayContent
from subscriptions.realtime.events.reactions import ChannelReactions
from subscriptions.realtime.events.shared import ChannelMessage, ChannelPins, SharedEvent, WorkspaceUpdate
from subscriptions.realtime.events.threads import ChannelThread
from subscriptions.realtime.events.voice import VoiceStateChanged

SHARED_EVENT_KINDS: tuple[type[SharedEvent], ...] = (
    ChannelMessage,
    ChannelPins,
    WorkspaceUpdate,
    ChannelReactions,
    ChannelThread,
    VoiceStateChanged,
)

_BY_CODE = {kind.code: kind for kind in SHARED_EVENT_KINDS}


class _UnknownEntry(LogEntry):
    def replay(self, content: ReplayContent) -> Event | None:
        """Return None: only servers of a newer version know this kind."""
        return None


def parse_shared_entry(text: bytes) -> LogEntry:
    """Return an entry of the log of a shared clock."""
    fields = orjson.loads(text)
    kind = _BY_CODE.get(fields["k"])
    return kind.parse_entry(fields) if kind is not None else _UnknownEntry()


def decode_shared_event(fields: Fields) -> SharedEvent | None:
    """Return the event from the fields of `Event.encode`; None for a kind that only newer servers know."""
    kind = _BY_CODE.get(fields["k"])
    return kind.from_wire(fields) if kind is not None else None
