"""All event kinds. A kind is known to the bus and to replays once it is listed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

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

E = TypeVar("E", bound=Event)
T = TypeVar("T")

_PARSE_ERRORS = (KeyError, TypeError, ValueError, AttributeError)
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


class UnknownEntry(LogEntry):
    """A log entry that only servers of a later version understand."""

    def replay(self, content: ReplayContent) -> Event | None:
        """Return None: the event cannot be shown."""
        return None


class KnownKinds(Generic[E]):
    """Parses events of some kinds. A later version may have written other kinds, or other forms of these (ADR 104)."""

    def __init__(self, kinds: Iterable[type[E]], of: str = "") -> None:
        """Know the events of some kinds. of: what is added to the form in the log, if one is not understood."""
        self._of = of
        self._by_code = {kind.code: kind for kind in kinds}

    def parse_log_entry(self, text: bytes) -> LogEntry:
        """Return an entry of a log. If only a later version understands it, returns UnknownEntry."""
        fields = orjson.loads(text)
        kind = self._by_code.get(fields.get("k"))
        entry = self._parse(kind.parse_entry, fields, "log entry") if kind is not None else None
        return UnknownEntry() if entry is None else entry

    def decode(self, fields: Fields) -> E | None:
        """Return the event from the fields of `Event.encode`; None for one that only later versions understand."""
        kind = self._by_code.get(fields.get("k", ""))
        return self._parse(kind.from_wire, fields, "frame") if kind is not None else None

    def _parse(self, parse: Callable[[Fields], T], fields: Fields, form: str) -> T | None:
        try:
            return parse(fields)
        except _PARSE_ERRORS:
            # Its content is not logged.
            _log.warning("event_not_understood", form=form + self._of, kind=str(fields.get("k"))[:8])
            return None


_OF_USERS = KnownKinds(EVENT_KINDS)
parse_log_entry = _OF_USERS.parse_log_entry
decode_event = _OF_USERS.decode
