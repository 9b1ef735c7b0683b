"""Typed changes of sessions of threads: following, and access to the parent conversation (ADR 70)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from store.base.ids import THREADS, ConversationId
from store.sessions.fields import JOINED_N, RESET_BY_JOINING, channel_mark, record_of
from store.sessions.session import Session

_FOLLOWS, _VERSION = Session.follows.stored, Session.follow_version.stored
_READ_SEQ, _READ_N = Session.acknowledged_seq.stored, Session.read_n.stored
_DELIVERED_SEQ = Session.received_seq.stored
_ACTIVE_TS, _WRITE_TS, _MENTIONS = Session.active_ts.stored, Session.write_ts.stored, Session.mentions.stored


@dataclass(frozen=True, slots=True)
class FollowThread:
    """The user follows a thread from now on.

    Attributes:
        conversation: The thread.
        seq: Everything up to this seq is read. The user gets all later replies.
        n: Countable messages up to there.
        version: Version of the thread's followers with this change.
        written_ms: Time of the newest countable reply up to there; 0: not known, because a reply follows at once.
    """

    kind: ClassVar[str] = "follow"
    conversation: ConversationId
    seq: int
    n: int
    version: int
    written_ms: int = 0

    def row_update(self, at: int) -> dict[str, Any]:
        """Return the update of the row, which may not exist yet."""
        kept = {_FOLLOWS: 1, _VERSION: self.version, JOINED_N: self.n}
        highest = {
            _READ_SEQ: self.seq,
            _READ_N: self.n,
            _DELIVERED_SEQ: self.seq,
            _ACTIVE_TS: at,
            _WRITE_TS: self.written_ms,
        }
        return {
            "$set": kept | channel_mark(self.conversation),
            "$max": highest,
            "$unset": {f.stored: "" for f in RESET_BY_JOINING if f.stored not in kept},
            "$pull": {_MENTIONS: {"$lte": self.seq}},
        }

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the record to begin with. Settings and positions of an earlier session are kept by the script."""
        record = record_of(
            write_seq=self.seq,
            n=self.n,
            acknowledged_seq=self.seq,
            read_n=self.n,
            received_seq=self.seq,
            active_ts=at,
            write_ts=self.written_ms,
            follows=1,
            follow_version=self.version,
            sub_biz=THREADS,
        )
        return {"c": self.conversation, "v": self.version, "rec": record}


@dataclass(frozen=True, slots=True)
class UnfollowThread:
    """The user does not follow a thread any more. The read position stays; unread mentions so far do not count."""

    kind: ClassVar[str] = "unfollow"
    conversation: ConversationId
    version: int

    def row_update(self, at: int) -> dict[str, Any]:
        """Return the update of the row."""
        return {
            "$set": {_VERSION: self.version},
            "$max": {_ACTIVE_TS: at},
            "$unset": {_FOLLOWS: "", _MENTIONS: "", _WRITE_TS: ""},
        }

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the version."""
        return {"c": self.conversation, "v": self.version}


@dataclass(frozen=True, slots=True)
class HideThreads:
    """The user can't see some conversations any more: their threads are INVALID. Hubs read the event from the log."""

    kind: ClassVar[str] = "hide"
    parents: Sequence[ConversationId]

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the conversations."""
        return {"ps": self.parents}


@dataclass(frozen=True, slots=True)
class ShowThreads:
    """The user can see some conversations. If a thread there is hidden, the state is dropped and loaded again.

    inside: Instead of conversations the beginning of their ids.
    """

    kind: ClassVar[str] = "show"
    parents: Sequence[ConversationId]
    inside: str = ""

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the conversations, or the beginning of their ids."""
        return {"in": self.inside} if self.inside else {"ps": self.parents}


@dataclass(frozen=True, slots=True)
class JudgeThreads:
    """A member may read other parts of a group than before. If this hides or shows a thread, the state is loaded again.

    ranges: First and last readable seq, oldest first; None: no end.
    """

    kind: ClassVar[str] = "judge"
    parent: ConversationId
    ranges: Sequence[tuple[int, int | None]]

    def script_fields(self, at: int) -> dict[str, Any]:
        """Return the group and the ranges. A range without end has one number."""
        ranges = [[first] if last is None else [first, last] for first, last in self.ranges]
        return {"c": self.parent, "rs": ranges}
