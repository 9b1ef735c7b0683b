"""All event kinds. A kind is known to the bus and to replays once it is listed here."""

from __future__ import annotations

import orjson
import structlog

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

_log = structlog.get_logger()

PARSE_ERRORS = (KeyError, TypeError, ValueError, AttributeError)
"""Exceptions that parsing an event of a later version may raise."""

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
    """A log entry that only servers of a later version understand."""

    def replay(self, content: ReplayContent) -> Event | None:
        """Return None: the event cannot be shown."""
        return None


def parse_log_entry(text: bytes) -> LogEntry:
    """Return an entry of a user's log. If only a later version understands it, returns UnknownEntry."""
    fields = orjson.loads(text)
    kind = _BY_CODE.get(fields.get("k"))
    if kind is None:
        return UnknownEntry()
    try:
        return kind.parse_entry(fields)
    except PARSE_ERRORS:
        log_unreadable("log entry", fields)
        return UnknownEntry()


def decode_event(fields: Fields) -> Event | None:
    """Return the event from the fields of `Event.encode`; None for one that only later versions understand."""
    kind = _BY_CODE.get(fields.get("k", ""))
    if kind is None:
        return None
    try:
        return kind.from_wire(fields)
    except PARSE_ERRORS:
        log_unreadable("frame", fields)
        return None


def log_unreadable(form: str, fields: Fields) -> None:
    """Log that an event has a form of a later version. Its content is not logged."""
    _log.warning("event_not_understood", form=form, kind=str(fields.get("k"))[:8])
