"""The event of changed sessions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId, UserId, gateway_id
from store.base.known_values import known_value
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from subscriptions.realtime.events.base import (
    Event,
    Fields,
    LogEntry,
    MessageStreamEvent,
    ReplayContent,
    encode_entry,
)
from subscriptions.realtime.events.receipts import ReceiptAdvanced


@dataclass(frozen=True, slots=True)
class SessionChanged(Event):
    """Sessions of the user changed for a reason other than a message."""

    code = "s"

    reason: SyncReason
    sessions: tuple[Session, ...]
    """The changed sessions after the change, and their gateways. Never empty."""
    total_unread: int
    receipt: ReceiptAdvanced | None = None
    """The user's own acknowledgement, if the change is one: their devices see it as a message event too."""

    def wire_fields(self) -> Fields:
        """Return the whole sessions."""
        fields: Fields = {
            **_reason_fields(self.reason),
            "u": self.sessions[0].user,
            "t": self.total_unread,
            "o": [[session.conversation, session.record] for session in self.sessions],
        }
        return fields | {"a": self.receipt.encode()} if self.receipt else fields

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent."""
        user = UserId(fields["u"])
        sessions = tuple(Session(user, ConversationId(name), record) for name, record in fields["o"])
        return cls(_reason_in(fields), sessions, fields["t"], _receipt_in(fields))

    @staticmethod
    def log_entry(
        reason: SyncReason, conversations: Sequence[ConversationId], receipt: ReceiptAdvanced | None = None
    ) -> str:
        """Return the log entry of a change before it is made."""
        fields: Fields = {"k": SessionChanged.code, **_reason_fields(reason), "c": conversations}
        return encode_entry(fields | {"a": receipt.encode()} if receipt else fields)

    @classmethod
    def parse_entry(cls, fields: Fields) -> LogEntry:
        """Return a reference to the sessions."""
        return SessionReference(_reason_in(fields), tuple(map(ConversationId, fields["c"])), _receipt_in(fields))

    @property
    def message_event(self) -> MessageStreamEvent | None:
        """The user's own acknowledgement, if the change is one."""
        return self.receipt

    @property
    def session_event(self) -> SessionChanged | None:
        """The event itself."""
        return self

    @property
    def next_mute_end_ms(self) -> int | None:
        """The first end of a mute."""
        ends = [session.muted_until_ms for session in self.sessions]
        return min((end for end in ends if end is not None), default=None)


@dataclass(frozen=True, slots=True)
class SessionReference(LogEntry):
    """A log entry that names sessions. A replay shows their present state, which includes all earlier changes."""

    reason: SyncReason
    conversations: tuple[ConversationId, ...]
    receipt: ReceiptAdvanced | None = None

    @property
    def session_conversations(self) -> Collection[ConversationId]:
        """The conversations of the sessions."""
        return self.conversations

    def replay(self, content: ReplayContent) -> Event | None:
        """Return the present state of the sessions and of their gateways; None if all of them are gone."""
        present = content.sessions
        changed = [present[name] for name in self.conversations if name in present]
        gateways = dict.fromkeys(gateway_id(session.sub_biz) for session in changed if session.sub_biz is not None)
        changed += [present[name] for name in gateways if name in present]
        return SessionChanged(self.reason, tuple(changed), content.total_unread, self.receipt) if changed else None


_INSTEAD = {SyncReason.NOTIFICATIONS: SyncReason.CATEGORY}
"""Reasons that servers of the version before this one do not know, and reasons that they show in their place."""


def _reason_fields(reason: SyncReason) -> Fields:
    if reason not in _INSTEAD:
        return {"r": reason.value}
    return {"r": _INSTEAD[reason].value, "n": reason.value}


def _reason_in(fields: Fields) -> SyncReason:
    """Return the reason; CATCH_UP if only later versions know it, so that devices still get the change."""
    for name in ("n", "r"):
        if name in fields and (reason := known_value(SyncReason, fields[name], None)) is not None:
            return reason
    return SyncReason.CATCH_UP


def _receipt_in(fields: Fields) -> ReceiptAdvanced | None:
    return ReceiptAdvanced.from_wire(fields["a"]) if "a" in fields else None
