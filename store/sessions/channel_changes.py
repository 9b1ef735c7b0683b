"""The typed change of a session in a channel, or in a thread that the user does not follow: see `changes.py`.

It creates the session if there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from store.base.ids import ConversationId
from store.sessions.fields import MAX_UNREAD_MENTIONS, Field, channel_mark, record_of
from store.sessions.session import Session

_MENTIONS, _ACTIVE_TS = Session.mentions.stored, Session.active_ts.stored
_READ_SEQ, _READ_N = Session.acknowledged_seq.stored, Session.read_n.stored
_DELIVERED_SEQ = Session.received_seq.stored


@dataclass(frozen=True, slots=True)
class ChannelChange:
    """A change of one session in a channel, or in a thread that the user does not follow.

    Attributes:
        conversation: The channel, or the thread.
        begins_at: seq and n up to which everything is read if the session begins with this change.
        read: seq and n of a new read position.
        delivered_seq: A new delivered position.
        values: Fields to set.
        moves_write_ts: The time that sorts the session moves.
        mention_seq: A message that mentions the user.
    """

    kind: ClassVar[str] = "channel"
    conversation: ConversationId
    begins_at: tuple[int, int]
    read: tuple[int, int] | None = None
    delivered_seq: int | None = None
    values: Mapping[Field[Any], Any] = field(default_factory=dict)
    moves_write_ts: bool = False
    mention_seq: int | None = None

    @property
    def conversations(self) -> Sequence[ConversationId]:
        """The session."""
        return (self.conversation,)

    def row_updates(self, at: int) -> dict[ConversationId, dict[str, Any]]:
        """Return the update of the row, which may not exist yet. For changes without `mention_seq`."""
        highest: dict[str, int] = {_ACTIVE_TS: at}
        if self.moves_write_ts:
            highest[Session.write_ts.stored] = at
        update: dict[str, Any] = {"$max": highest}
        if self.read is not None:
            highest |= {_READ_SEQ: self.read[0], _READ_N: self.read[1], _DELIVERED_SEQ: self.read[0]}
            update["$pull"] = {_MENTIONS: {"$lte": self.read[0]}}
        if self.delivered_seq is not None:
            highest[_DELIVERED_SEQ] = max(self.delivered_seq, highest.get(_DELIVERED_SEQ, 0))
        stored = {each.stored: each.in_row(value) for each, value in self.values.items()}
        kept = {name: value for name, value in stored.items() if value is not None}
        removed = {name: "" for name, value in stored.items() if value is None}
        begun = {name: value for name, value in self._first_positions.items() if name not in highest}
        return {
            self.conversation: update
            | ({"$set": kept} if kept else {})
            | ({"$unset": removed} if removed else {})
            | {"$setOnInsert": channel_mark(self.conversation) | begun}
        }

    @property
    def _first_positions(self) -> dict[str, int]:
        """The positions of a session that begins."""
        seq, n = self.begins_at
        return {_READ_SEQ: seq, _READ_N: n, _DELIVERED_SEQ: seq}

    def mention_update(self, at: int) -> list[dict[str, Any]]:
        """Return the update of the row by a message that mentions the user. It may be repeated, and overtaken."""
        first = {name: {"$ifNull": [f"${name}", value]} for name, value in self._first_positions.items()}
        known = {"$ifNull": [f"${_MENTIONS}", []]}
        is_noted = {"$or": [{"$gte": [f"${_READ_SEQ}", self.mention_seq]}, {"$in": [self.mention_seq, known]}]}
        noted = {"$slice": [{"$concatArrays": [known, [self.mention_seq]]}, -MAX_UNREAD_MENTIONS]}
        return [
            {"$set": first | channel_mark(self.conversation)},
            {
                "$set": {
                    _MENTIONS: {"$cond": [is_noted, {"$ifNull": [f"${_MENTIONS}", "$$REMOVE"]}, noted]},
                    _ACTIVE_TS: {"$max": [f"${_ACTIVE_TS}", at]},
                }
            },
        ]

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the change, with the record to begin with."""
        seq, n = self.begins_at
        fields: dict[str, Any] = {
            "c": self.conversation,
            "b": record_of(acknowledged_seq=seq, read_n=n, received_seq=seq, active_ts=at),
        }
        if self.read is not None:
            fields["r"], fields["rn"] = self.read
        if self.delivered_seq is not None:
            fields["d"] = self.delivered_seq
        if self.mention_seq is not None:
            fields["m"] = self.mention_seq
        stored = {each.stored: each.in_record(value) for each, value in self.values.items()}
        set_fields = {name: value for name, value in stored.items() if value is not None}
        removed = [name for name, value in stored.items() if value is None]
        return (
            fields
            | ({"f": set_fields} if set_fields else {})
            | ({"u": removed} if removed else {})
            | ({"w": 1} if self.moves_write_ts else {})
        )
