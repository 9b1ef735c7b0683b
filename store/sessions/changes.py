"""Typed changes of a user's sessions: the update of the row in MongoDB, and the input of the script `apply`.

`_changes.lua` holds the other half: the change of the cached record. Messages have their own, faster form: see
`apply_messages.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import orjson

from store.base.ids import ConversationId
from store.receipts.receipt_marks import ReceiptKind
from store.sessions.channel_changes import ChannelChange
from store.sessions.fields import (
    DEFAULT_SETTINGS,
    JOINED_N,
    JOINED_SEQ,
    LAST_READABLE_N,
    LAST_READABLE_SEQ,
    RESET_BY_CHANGES,
    RESET_BY_JOINING,
    Field,
    record_of,
)
from store.sessions.session import Session


class Change(Protocol):
    """A change of one session of a user, or of several as one event."""

    kind: ClassVar[str]
    """Name of the function in `_changes.lua`.

    Kind and fields are stored while a state is being loaded, and applied by the server that loads it, which may be of
    another version: they never change.
    """

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the fields that this function takes, without the time and the log entry."""


class RowChange(Change, Protocol):
    """A change that a user makes under their lock, so that MongoDB has it before the cached state does."""

    @property
    def conversations(self) -> Sequence[ConversationId]:
        """The sessions that it changes. Each takes a tick of its own."""

    def row_updates(self, at: int) -> dict[ConversationId, dict[str, Any]]:
        """Return the update of each row. `at`: the tick of the first session (ms). Each further one is 1 ms later."""


class LoggedChange(NamedTuple):
    """A change with its time and its log entry, in the form that the script `apply` takes. Many users may share it."""

    kind: str
    at: int
    text: bytes


def logged_change(change: Change, at: int, event: str) -> LoggedChange:
    """Return a change at a time (ms) of the user's clock, with its entry in the user's log."""
    return LoggedChange(change.kind, at, orjson.dumps(change.script_fields(at) | {"at": at, "e": event}))


@dataclass(frozen=True, slots=True)
class SetFields:
    """Set fields of sessions. `moves_write_ts`: the sessions go to the top of their lists."""

    kind: ClassVar[str] = "set"
    conversations: Sequence[ConversationId]
    values: Mapping[Field[Any], Any]
    moves_write_ts: bool = False

    def is_needed(self, session: Session) -> bool:
        """Return whether it changes a field, or removes the session's unread mark, as every change does."""
        return session.unread_status or any(field.of(session) != value for field, value in self.values.items())

    def row_updates(self, at: int) -> dict[ConversationId, dict[str, Any]]:
        """Return the update of each row."""
        return {name: self._row_update(at + i) for i, name in enumerate(self.conversations)}

    def _row_update(self, at: int) -> dict[str, Any]:
        stored = {field.stored: field.in_row(value) for field, value in self.all_values().items()}
        kept = {name: value for name, value in stored.items() if value is not None}
        gone = {name: "" for name, value in stored.items() if value is None}
        update = {"$max": _times(at, at if self.moves_write_ts else 0), "$set": kept}
        return update | {"$unset": gone} if gone else update

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return fields to set and to remove."""
        stored = {field.stored: field.in_record(value) for field, value in self.all_values().items()}
        return {
            "cs": self.conversations,
            "f": {name: value for name, value in stored.items() if value is not None},
            "u": [name for name, value in stored.items() if value is None],
            "w": int(self.moves_write_ts),
        }

    def all_values(self) -> dict[Field[Any], Any]:
        """Return the values to set, and those that every change resets."""
        return {field: field.default for field in RESET_BY_CHANGES} | dict(self.values)


def deletion(session: Session, *, hard: bool) -> SetFields:
    """Return the change that deletes a session up to its newest message. hard: its settings are forgotten too.

    A session that is deleted already only has its settings forgotten.
    """
    values: dict[Field[Any], Any] = dict(DEFAULT_SETTINGS) if hard else {}
    if session.valid:
        values |= {Session.deleted_seq: session.write_seq, Session.deleted_n: session.n}
    return SetFields([session.conversation], values)


@dataclass(frozen=True, slots=True)
class Read:
    """Everything up to `seq` is read; `n`: countable messages up to there. Removes the unread mark."""

    kind: ClassVar[str] = "read"
    conversation: ConversationId
    seq: int
    n: int

    @property
    def conversations(self) -> Sequence[ConversationId]:
        """The session."""
        return (self.conversation,)

    def row_updates(self, at: int) -> dict[ConversationId, dict[str, Any]]:
        """Return the update of the row."""
        update = {
            "$max": _positions(self.seq, self.n) | _times(at),
            "$pull": {Session.mentions.stored: {"$lte": self.seq}},
            "$unset": {Session.unread_mark.stored: ""},
        }
        return {self.conversation: update}

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the read position."""
        return {"c": self.conversation, "r": self.seq, "rn": self.n}


@dataclass(frozen=True, slots=True)
class Delivered:
    """Everything up to `seq` has arrived on one of the user's devices."""

    kind: ClassVar[str] = "delivered"
    conversation: ConversationId
    seq: int

    @property
    def conversations(self) -> Sequence[ConversationId]:
        """The session."""
        return (self.conversation,)

    def row_updates(self, at: int) -> dict[ConversationId, dict[str, Any]]:
        """Return the update of the row."""
        return {self.conversation: {"$max": {Session.received_seq.stored: self.seq} | _times(at)}}

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the delivered position."""
        return {"c": self.conversation, "d": self.seq}


@dataclass(frozen=True, slots=True)
class AcknowledgeMany:
    """Several sessions are changed, most often read or delivered, as one event.

    parts: For each session the change, and the log entry of its receipt, which becomes an event of its own after the
        event of the sessions; None: no receipt.
    """

    kind: ClassVar[str] = "acknowledge"
    parts: Sequence[tuple[Read | Delivered | ChannelChange, str | None]]

    @property
    def conversations(self) -> Sequence[ConversationId]:
        """The sessions."""
        return [part.conversation for part, _ in self.parts]

    def row_updates(self, at: int) -> dict[ConversationId, dict[str, Any]]:
        """Return the update of each row."""
        updates: dict[ConversationId, dict[str, Any]] = {}
        for i, (part, _) in enumerate(self.parts):
            updates |= part.row_updates(at + i)
        return updates

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the kind and the fields of each part."""
        return {
            "ps": [
                {"k": part.kind} | part.script_fields(at) | ({"e": entry} if entry is not None else {})
                for part, entry in self.parts
            ]
        }


@dataclass(frozen=True, slots=True)
class Notice:
    """An event of a conversation that changes nothing in the session. Stored as a receipt without `peer`."""

    kind: ClassVar[str] = "receipt"
    conversation: ConversationId

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the conversation."""
        return {"c": self.conversation}


@dataclass(frozen=True, slots=True)
class EventOnly:
    """An event that has nothing to do with the sessions of the user, who may have none of its conversation.

    `may_repeat`: another server may have applied the same event.
    """

    kind: ClassVar[str] = "event"
    may_repeat: bool = False

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return whether it may be repeated."""
        return {"again": 1} if self.may_repeat else {}


@dataclass(frozen=True, slots=True)
class ReceiptReceived:
    """The other user of a private conversation has read or received messages of this user, up to `seq`."""

    kind: ClassVar[str] = "receipt"
    conversation: ConversationId
    receipt: ReceiptKind
    seq: int

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the other user's position."""
        return {"c": self.conversation, "k": self.receipt.value, "s": self.seq, "peer": 1}


@dataclass(frozen=True, slots=True)
class Revise:
    """A message was edited or recalled. `may_repeat`: another server may have applied the same revision."""

    kind: ClassVar[str] = "revise"
    conversation: ConversationId
    seq: int
    may_repeat: bool

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the message's place."""
        return {"c": self.conversation, "s": self.seq, "again": int(self.may_repeat)}


@dataclass(frozen=True, slots=True)
class NewGroupVersion:
    """A group has a new version, because one of its fields or a member's role changed."""

    kind: ClassVar[str] = "group"
    conversation: ConversationId
    version: int

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the version."""
        return {"c": self.conversation, "v": self.version}


@dataclass(frozen=True, slots=True)
class Join:
    """The user becomes a member by the message at `seq`, with everything up to it read; 0: by the group's creation."""

    kind: ClassVar[str] = "join"
    conversation: ConversationId
    seq: int
    n: int
    sub_biz: str | None

    def row_update(self, at: int) -> dict[str, Any]:
        """Return the update of the row, which may not exist yet."""
        reset = (*(field.stored for field in RESET_BY_JOINING), LAST_READABLE_SEQ, LAST_READABLE_N)
        return {
            "$set": {JOINED_N: self.n},
            "$max": _positions(self.seq, self.n) | _times(at, at) | {JOINED_SEQ: self.seq},
            "$unset": dict.fromkeys(reset, ""),
            "$pull": {Session.mentions.stored: {"$lte": self.seq}},
        }

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the record to begin with. Settings of an earlier membership are kept by the script."""
        record = record_of(
            write_seq=self.seq,
            n=self.n,
            acknowledged_seq=self.seq,
            read_n=self.n,
            received_seq=self.seq,
            active_ts=at,
            write_ts=at,
            # The message itself is read, but it is not applied yet: the user's devices have to get it.
            gaps=[self.seq, self.seq] if self.seq else None,
            sub_biz=self.sub_biz,
        )
        return {"c": self.conversation, "rec": record}


@dataclass(frozen=True, slots=True)
class Leave:
    """The user's membership ends: they may read up to `last_seq`.

    n: Countable messages up to there.
    written_ms: Time of the newest countable message up to there.
    """

    kind: ClassVar[str] = "leave"
    conversation: ConversationId
    last_seq: int
    n: int
    written_ms: int

    def row_update(self, at: int) -> list[dict[str, Any]]:
        """Return the update of the row, which keeps its state up to the last readable message."""
        active, write = Session.active_ts.stored, Session.write_ts.stored
        # A message that was written before the user joined does not count, even if it became durable afterwards.
        is_visible = {"$gt": [self.n, {"$ifNull": [f"${JOINED_N}", -1]}]}
        written = {"$cond": [is_visible, self.written_ms, 0]}
        return [
            {
                "$set": {
                    LAST_READABLE_SEQ: self.last_seq,
                    LAST_READABLE_N: self.n,
                    active: {"$max": [f"${active}", at]},
                    write: {"$max": [f"${write}", written]},
                }
            }
        ]

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the last seq."""
        return {"c": self.conversation, "f": self.last_seq}


@dataclass(frozen=True, slots=True)
class Dissolve:
    """A group that the user is or was in has ended."""

    kind: ClassVar[str] = "dissolve"
    conversation: ConversationId

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the conversation."""
        return {"c": self.conversation}


@dataclass(frozen=True, slots=True)
class Invalidate:
    """MongoDB may have newer data than the cached state. `unless_cached`: not if the state has this session."""

    kind: ClassVar[str] = "doubt"
    unless_cached: ConversationId | None = None

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the session, if there is one."""
        return {"c": self.unless_cached} if self.unless_cached is not None else {}


@dataclass(frozen=True, slots=True)
class ForgetChannel:
    """A channel was deleted: its session is removed from the cached state. It is no event."""

    kind: ClassVar[str] = "forget"
    channel: ConversationId

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the channel."""
        return {"c": self.channel}


INVALIDATE = logged_change(Invalidate(), 0, "")


def new_row(at: int) -> dict[str, Any]:
    """Return the fields of a session that begins at a time (ms), with nothing read."""
    return _positions(0, 0) | _times(at) | {Session.write_ts.stored: at}


def _positions(seq: int, n: int) -> dict[str, int]:
    return {Session.acknowledged_seq.stored: seq, Session.read_n.stored: n, Session.received_seq.stored: seq}


def _times(active_ts: int, write_ts: int = 0) -> dict[str, int]:
    times = {Session.active_ts.stored: active_ts}
    return times | {Session.write_ts.stored: write_ts} if write_ts else times
