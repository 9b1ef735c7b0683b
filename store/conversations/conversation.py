"""Conversations as records: heads and memberships."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from store.base.ids import ConversationId, ConversationKind, UserId
from store.conversations.conversation_fields import NO_END, MemberField
from store.conversations.group_info import GroupInfo, GroupState
from store.messages.message import Message
from store.threads.thread_info import ThreadInfo


@dataclass(frozen=True, slots=True)
class Member:
    """A user's membership of a group, or what a thread knows of a user.

    `intervals`: first and last seq, oldest first; None: not ended. In a thread those in which the user follows.
    `unfollowed`: in a thread, the user stopped following. `last_reply`: in a thread, seq of a reply; 0: no reply.
    """

    user: UserId
    role: str
    intervals: tuple[tuple[int, int | None], ...]
    joined_at_ms: int
    unfollowed: bool = False
    last_reply: int = 0

    @property
    def is_current(self) -> bool:
        """True if the user is a member now."""
        return bool(self.intervals) and self.intervals[-1][1] is None

    def can_read(self, seq: int, *, full_history: bool) -> bool:
        """Return whether the user is a member of a group now, and can read the message at a seq."""
        if not self.is_current or full_history:
            return self.is_current
        return any(first <= seq and (last is None or seq <= last) for first, last in self.intervals)

    def ended_at(self, seq: int) -> Member:
        """Return the same membership in a group that ended at a seq."""
        return replace(self, intervals=tuple((first, seq if last is None else last) for first, last in self.intervals))

    def to_fields(self) -> dict[str, Any]:
        """Return the stored fields."""
        fields: dict[str, Any] = {
            MemberField.ROLE: self.role,
            MemberField.INTERVALS: [[first, NO_END if last is None else last] for first, last in self.intervals],
            MemberField.JOINED_AT: self.joined_at_ms,
            MemberField.UNFOLLOWED: self.unfollowed,
            MemberField.LAST_REPLY: self.last_reply,
        }
        return {name: value for name, value in fields.items() if value}

    def to_json(self) -> str:
        """Return the record kept in Redis."""
        return orjson.dumps(self.to_fields()).decode()


def member_from(user: UserId, fields: dict[str, Any]) -> Member:
    """Return the membership of a document or a decoded record."""
    intervals = fields.get(MemberField.INTERVALS, ())
    return Member(
        user=user,
        role=fields.get(MemberField.ROLE, ""),
        intervals=tuple((int(first), None if last == NO_END else int(last)) for first, last in intervals),
        joined_at_ms=int(fields.get(MemberField.JOINED_AT, 0)),
        unfollowed=bool(fields.get(MemberField.UNFOLLOWED)),
        last_reply=int(fields.get(MemberField.LAST_REPLY, 0)),
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
    """Channels and threads: time of the newest countable message's commit."""
    mentions_all: tuple[int, ...] = ()
    """Channels and threads: seqs of the newest messages that mention everybody, ascending."""
    contents_version: int = 0
    """Channels only: changes with every change of the messages up to `seq`; 0: not known."""
    pin_count: int | None = None
    """Channels only: number of pinned messages; None: not known."""
    blocked: frozenset[UserId] = frozenset()
    """Private conversations only: the people in it who are blocked by the other one."""
    floor_seq: int = 0
    """Messages up to this seq are expired (ADR 99). `newest` and `mentions_all` have none of them."""
    floor_n: int = 0
    """Countable messages up to `floor_seq`."""
    thread: ThreadInfo | None = None
    """Threads only. `member_count` is the number of followers, and `version` that of changes of the thread."""

    @property
    def newest_n(self) -> int:
        """Countable messages up to `seq`, expired ones included."""
        return self.newest.n if self.newest is not None else self.floor_n

    @property
    def has_begun(self) -> bool:
        """True if a message was stored in it, expired ones included."""
        return self.newest is not None or self.floor_seq > 0

    @property
    def reply_count(self) -> int:
        """Of a thread: replies that are not recalled."""
        assert self.thread is not None
        return self.newest.n - self.thread.recalled_count if self.newest is not None else 0

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
