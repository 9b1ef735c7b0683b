"""All event kinds on shared clocks. A kind is known to the bus and to replays once it is listed here."""

from __future__ import annotations

import orjson

from subscriptions.realtime.events.base import Fields, LogEntry
from subscriptions.realtime.events.reactions import ChannelReactions
from subscriptions.realtime.events.registry import PARSE_ERRORS, UnknownEntry, log_unreadable
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


def parse_shared_entry(text: bytes) -> LogEntry:
    """Return an entry of the log of a shared clock. Like `parse_log_entry`."""
    fields = orjson.loads(text)
    kind = _BY_CODE.get(fields.get("k"))
    if kind is None:
        return UnknownEntry()
    try:
        return kind.parse_entry(fields)
    except PARSE_ERRORS:
        log_unreadable("log entry of a workspace", fields)
        return UnknownEntry()


def decode_shared_event(fields: Fields) -> SharedEvent | None:
    """Return the event from the fields of `Event.encode`; None for one that only later versions understand."""
    kind = _BY_CODE.get(fields.get("k", ""))
    if kind is None:
        return None
    try:
        return kind.from_wire(fields)
    except PARSE_ERRORS:
        log_unreadable("frame of a workspace", fields)
        return None
