"""All event kinds. A kind is known to the bus and to replays once it is listed here."""

from __future__ import annotations

import orjson

from subscriptions.realtime.events.base import EphemeralEvent, Event, Fields, LogEntry
from subscriptions.realtime.events.messages import MessageCreated, MessageRecalled, MessageUpdated
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.events.typing import TypingStarted

EVENT_KINDS: tuple[type[Event], ...] = (
    MessageCreated,
    MessageUpdated,
    MessageRecalled,
    ReceiptAdvanced,
    SessionChanged,
)
EPHEMERAL_KINDS: tuple[type[EphemeralEvent], ...] = (TypingStarted,)

_BY_CODE = {kind.code: kind for kind in EVENT_KINDS}


def parse_log_entry(text: bytes) -> LogEntry:
    """Return an entry of a user's log."""
    fields = orjson.loads(text)
    return _BY_CODE[fields["k"]].parse_entry(fields)


def decode_event(fields: Fields) -> Event:
    """Return the event from the fields of `Event.encode`."""
    return _BY_CODE[fields["k"]].from_wire(fields)
