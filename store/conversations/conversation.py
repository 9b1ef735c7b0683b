"""Conversations as records: heads, memberships, and the fields of a group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from store.base.ids import ConversationId, ConversationKind, UserId
from store.conversations.conversation_fields import NO_END, ConversationField, MemberField
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
class GroupInfo:
    """Fields of a group that rarely change."""

    name: str
    avatar_url: str | None
    owner: UserId
    full_history: bool
    created_at_ms: int
    sub_biz: str | None = None
    metadata: str | None = None
    """JSON text."""

    def to_fields(self) -> dict[str, Any]:
        """Return the stored fields. Empty ones are left out."""
        fields: dict[str, Any] = {
            ConversationField.NAME: self.name,
            ConversationField.OWNER: self.owner,
            ConversationField.CREATED_AT: self.created_at_ms,
        }
        if self.avatar_url:
            fields[ConversationField.AVATAR] = self.avatar_url
        if self.metadata is not None:
            fields[ConversationField.METADATA] = self.metadata
        if self.full_history:
            fields[ConversationField.FULL_HISTORY] = True
        if self.sub_biz:
            fields[ConversationField.SUB_BIZ] = self.sub_biz
        return fields


def group_info_from(fields: dict[str, Any]) -> GroupInfo:
    """Return the group fields of a document or a decoded record."""
    return GroupInfo(
        name=fields[ConversationField.NAME],
        avatar_url=fields.get(ConversationField.AVATAR),
        owner=UserId(fields[ConversationField.OWNER]),
        full_history=bool(fields.get(ConversationField.FULL_HISTORY)),
        created_at_ms=fields[ConversationField.CREATED_AT],
        sub_biz=fields.get(ConversationField.SUB_BIZ),
        metadata=fields.get(ConversationField.METADATA),
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

    @property
    def has_ended(self) -> bool:
        """True if it is a group that has ended, dissolved or dismissed."""
        return self.ended_at is not None


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group and some memberships of it at one moment.

    `version`: version of the membership. A change decided on a snapshot is made only if the version is still the same.
    """

    version: str
    head: Head
    members: dict[UserId, Member]
