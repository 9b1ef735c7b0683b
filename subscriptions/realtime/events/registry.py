"""All event kinds. A kind is known to the bus and to replays once it is listed here."""

from __future__ import annotations

import orjson

from subscriptions.realtime.events.base import EphemeralEvent, Event, Fields, LogEntry, ReplayContent
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import (
    Mentioned,
    MessageCreated,
    MessageRecalled,
    MessageUpdated,
    PinsChanged,
)
from subscriptions.realtime.events.reactions import ReactionsChanged
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.events.threads import ThreadChanged
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped
from subscriptions.realtime.events.watched import WatchedMessage

EVENT_KINDS: tuple[type[Event], ...] = (
    MessageCreated,
    MessageUpdated,
    MessageRecalled,
    ReceiptAdvanced,
    GroupChanged,
    SessionChanged,
    Mentioned,
    PinsChanged,
    ReactionsChanged,
    ThreadChanged,
    WatchedMessage,
)
EPHEMERAL_KINDS: tuple[type[EphemeralEvent], ...] = (TypingStarted, TypingStopped)

_BY_CODE = {kind.code: kind for kind in EVENT_KINDS}


class UnknownEntry(LogEntry):
    """A log entry of a kind that only servers of a newer version know."""

    def replay(self, content: ReplayContent) -> Event | None:
        """Return None: the event cannot be shown."""
        return None


def parse_log_entry(text: bytes) -> LogEntry:
    """Return an entry of a user's log."""
    fields = orjson.loads(text)
    kind = _BY_CODE.get(fields["k"])
    return kind.parse_entry(fields) if kind is not None else UnknownEntry()


def decode_event(fields: Fields) -> Event | None:
    """Return the event from the fields of `Event.encode`; None for a kind that only newer servers know."""
    kind = _BY_CODE.get(fields["k"])
    return kind.from_wire(fields) if kind is not None else None
