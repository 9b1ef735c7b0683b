"""What happens to a user, as events, in the two forms they travel in.

In a user's log an event is a reference (a few bytes, kept by the thousand); between servers it carries what a
subscriber needs to see (so delivering costs no further read). Both are JSON objects with `k` for the kind. The end of a mute
is put in both forms by a script (`_sessions.lua`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from store.base.ids import ConversationId, UserId
from store.messages.message import Message, message_from
from store.messages.revision_store import RevisionKind
from store.receipts.receipt_marks import ReceiptKind
from store.sessions.session import Session


class SyncReason(StrEnum):
    """Why sessions changed. CATCH_UP is never stored: it is what was missed, seen at once."""

    READ = "READ"
    DELIVERED = "DELIVERED"
    DELETE = "DELETE"
    MUTE = "MUTE"
    UNMUTE = "UNMUTE"
    UNREAD = "UNREAD"
    PIN = "PIN"
    UNPIN = "UNPIN"
    CATEGORY = "CATEGORY"
    MEMBERSHIP = "MEMBERSHIP"
    CATCH_UP = "CATCH_UP"


@dataclass(frozen=True, slots=True)
class MessageCreated:
    """A message became durable."""

    message: Message


@dataclass(frozen=True, slots=True)
class MessageUpdated:
    """A message was edited."""

    message: Message


@dataclass(frozen=True, slots=True)
class MessageRecalled:
    """A message was recalled. No event that comes later holds its content."""

    message: Message


@dataclass(frozen=True, slots=True)
class ReceiptAdvanced:
    """A user has received or read everything up to seq."""

    conversation: ConversationId
    user: UserId
    kind: ReceiptKind
    seq: int


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """Sessions of the user changed for a reason other than a message, and the gateways they are behind; they and the total
    as they are after it.

    `receipt` where the change is an acknowledgement of the user's own, which their devices learn of as such too.
    """

    reason: SyncReason
    sessions: tuple[Session, ...]
    total_unread: int
    receipt: ReceiptAdvanced | None = None


@dataclass(frozen=True, slots=True)
class TypingStarted:
    """A user is writing something. Passing: in no log, without a place on anybody's clock."""

    conversation: ConversationId
    user: UserId
    at_ms: int


MessageRevised = MessageUpdated | MessageRecalled
MessageChanged = MessageCreated | MessageRevised
Event = MessageChanged | ReceiptAdvanced | SessionChanged
Ephemeral = TypingStarted


def revised(kind: RevisionKind, message: Message) -> MessageRevised | None:
    """What a revision is to those who hear of it when the message is as given: of an edit, nothing once that is recalled."""
    if kind is RevisionKind.RECALL:
        return MessageRecalled(message)
    return None if message.is_recalled else MessageUpdated(message)


@dataclass(frozen=True, slots=True)
class MessageReference:
    """A message in the log: read from the history when it is needed."""

    conversation: ConversationId
    seq: int


@dataclass(frozen=True, slots=True)
class RevisionReference:
    """A revision in the log: what it shows is the message as it is when that is read."""

    kind: RevisionKind
    conversation: ConversationId
    seq: int


@dataclass(frozen=True, slots=True)
class SessionReference:
    """Changed sessions in the log: their present state tells all."""

    reason: SyncReason
    conversations: tuple[ConversationId, ...]
    receipt: ReceiptAdvanced | None = None


Logged = MessageReference | RevisionReference | ReceiptAdvanced | SessionReference


def log_message(conversation: ConversationId, seq: int) -> str:
    """A message's entry in the log."""
    return orjson.dumps({"k": "m", "c": conversation, "s": seq}).decode()


def log_revision(kind: RevisionKind, message: Message) -> str:
    """A revision's entry in the log, with how many edits the message has had: no two of a message are the same."""
    fields = {"k": kind.value, "c": message.conversation, "s": message.seq, "v": message.edits}
    return orjson.dumps(fields).decode()


def log_session(
    reason: SyncReason, conversations: Sequence[ConversationId], receipt: ReceiptAdvanced | None = None
) -> str:
    """The entry of changed sessions in the log."""
    fields: dict[str, Any] = {"k": "s", "r": reason.value, "c": conversations}
    if receipt is not None:
        fields["a"] = _receipt_fields(receipt)
    return orjson.dumps(fields).decode()


def log_receipt(receipt: ReceiptAdvanced) -> str:
    """A receipt's entry in the log, whole."""
    return orjson.dumps(_receipt_fields(receipt)).decode()


def parse_logged(text: bytes) -> Logged:
    """An entry of the log."""
    fields = orjson.loads(text)
    match fields["k"]:
        case "m":
            return MessageReference(ConversationId(fields["c"]), fields["s"])
        case "u" | "x":
            return RevisionReference(RevisionKind(fields["k"]), ConversationId(fields["c"]), fields["s"])
        case "s":
            receipt = _receipt_from(fields["a"]) if "a" in fields else None
            return SessionReference(SyncReason(fields["r"]), tuple(map(ConversationId, fields["c"])), receipt)
        case _:
            return _receipt_from(fields)


def event_fields(event: Event) -> dict[str, Any]:
    """An event as it travels between servers."""
    match event:
        case MessageCreated(message):
            return {"k": "m", "m": _message_fields(message)}
        case MessageUpdated(message):
            return {"k": RevisionKind.EDIT.value, "m": _message_fields(message)}
        case MessageRecalled(message):
            return {"k": RevisionKind.RECALL.value, "m": _message_fields(message)}
        case ReceiptAdvanced():
            return _receipt_fields(event)
        case SessionChanged(reason, sessions, total, receipt):
            fields = {
                "k": "s",
                "r": reason.value,
                "u": sessions[0].user,
                "t": total,
                "o": [[session.conversation, session.record] for session in sessions],
            }
            return fields | {"a": _receipt_fields(receipt)} if receipt else fields


def event_from(fields: dict[str, Any]) -> Event:
    """An event from another server."""
    match fields["k"]:
        case "m":
            return MessageCreated(message_from(fields["m"]))
        case "u":
            return MessageUpdated(message_from(fields["m"]))
        case "x":
            return MessageRecalled(message_from(fields["m"]))
        case "s":
            user = UserId(fields["u"])
            sessions = tuple(Session(user, ConversationId(name), record) for name, record in fields["o"])
            receipt = _receipt_from(fields["a"]) if "a" in fields else None
            return SessionChanged(SyncReason(fields["r"]), sessions, fields["t"], receipt)
        case _:
            return _receipt_from(fields)


def _message_fields(message: Message) -> dict[str, Any]:
    return message.to_fields() | {"i": str(message.id), "s": message.seq, "n": message.n}


def _receipt_fields(receipt: ReceiptAdvanced) -> dict[str, Any]:
    return {"k": "r", "c": receipt.conversation, "u": receipt.user, "st": receipt.kind.value, "s": receipt.seq}


def _receipt_from(fields: dict[str, Any]) -> ReceiptAdvanced:
    return ReceiptAdvanced(ConversationId(fields["c"]), UserId(fields["u"]), ReceiptKind(fields["st"]), fields["s"])
