"""Conversations as records: heads and memberships."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from store.base.ids import ConversationId, ConversationKind, UserId
from store.conversations.conversation_fields import NO_END, MemberField
from store.conversations.group_info import GroupInfo, GroupState
from store.messages.message import Message


@dataclass(frozen=True, slots=True)
class Member:
    """A user's membership of a group. `intervals`: first and last seq, oldest first; None: not ended."""

    user: UserId
    role: str
    intervals: tuple[tuple[int, int | None], ...]
    joined_at_ms: int

    @property
    def is_current(self) -> bool:
        """True if the user is a member now."""
        return bool(self.intervals) and self.intervals[-1][1] is None

    def ended_at(self, seq: int) -> Member:
        """Return the same membership in a group that ended at a seq."""
        return replace(self, intervals=tuple((first, seq if last is None else last) for first, last in self.intervals))

    def to_fields(self) -> dict[str, Any]:
        """Return the stored fields."""
        intervals = [[first, NO_END if last is None else last] for first, last in self.intervals]
        return {MemberField.ROLE: self.role, MemberField.INTERVALS: intervals, MemberField.JOINED_AT: self.joined_at_ms}

    def to_json(self) -> str:
        """Return the record kept in Redis."""
        return orjson.dumps(self.to_fields()).decode()


def member_from(user: UserId, fields: dict[str, Any]) -> Member:
    """Return the membership of a document or a decoded record."""
    intervals = fields[MemberField.INTERVALS]
    return Member(
        user=user,
        role=fields[MemberField.ROLE],
        intervals=tuple((int(first), None if last == NO_END else int(last)) for first, last in intervals),
        joined_at_ms=int(fields[MemberField.JOINED_AT]),
    )


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a conversation that its readers share. Only durable messages count.

    `ended_at`: seq at which a group ended. A dissolved group stays readable to its former members, a dismissed one
    does not.
    """

    conversation: ConversationId
    kind: ConversationKind
    seq: int
    newest: Message | None
    member_count: int
    group: GroupInfo | None
    ended_at: int | None = None
    dismissed: bool = False
    version: int = 0
    """Number of changes of the group so far."""
    policy_version: int = 0
    """Channels only: the smallest policy version under which rights may be judged."""
    written_at_ms: int = 0
    """Channels only: time of the newest countable message's commit."""
    mentions_all: tuple[int, ...] = ()
    """Channels only: seqs of the newest messages that mention everybody, ascending."""
    contents_version: int = 0
    """Channels only: changes with every change of the messages up to `seq`; 0: not known."""

    @property
    def has_ended(self) -> bool:
        """True if it is a group that has ended, dissolved or dismissed."""
        return self.ended_at is not None

    def at(self, state: GroupState) -> Head:
        """Return the head with the fields of its group as they were after an earlier change.

        What former members may read, and whether the group has ended, is as at present: the visibility of the history
        applies to all readers, and an event tells former members of the end. A group that has ended has no members.
        """
        present = self.group
        assert present is not None
        info = replace(state.info, full_history=present.full_history)
        count = 0 if self.has_ended else state.member_count
        return replace(self, group=info, member_count=count, version=state.version)


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group and some memberships of it at one moment.

    `version`: version of the membership. A change decided on a snapshot is made only if the version is still the same.
    """

    version: str
    head: Head
    members: dict[UserId, Member]
