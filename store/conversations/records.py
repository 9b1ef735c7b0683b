"""Conversations as records: heads, memberships, and what a group keeps about itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import orjson

from store.base.ids import ConversationId, ConversationKind, UserId
from store.messages.records import Message


@dataclass(frozen=True, slots=True)
class Member:
    """A user's membership of a group. Intervals of seq, oldest first; an open end is None."""

    user: UserId
    role: str
    intervals: tuple[tuple[int, int | None], ...]
    joined_at_ms: int

    @property
    def is_current(self) -> bool:
        """Whether the user is a member now."""
        return bool(self.intervals) and self.intervals[-1][1] is None

    def until(self, seq: int) -> Member:
        """The same membership in a group that ended at a seq."""
        return replace(self, intervals=tuple((first, seq if last is None else last) for first, last in self.intervals))

    def to_fields(self) -> dict[str, Any]:
        """As kept."""
        spans = [[first, -1 if last is None else last] for first, last in self.intervals]
        return {"r": self.role, "i": spans, "j": self.joined_at_ms}

    def to_json(self) -> str:
        """As cached in Redis."""
        return orjson.dumps(self.to_fields()).decode()


def member_from(user: UserId, fields: dict[str, Any]) -> Member:
    """A membership from its JSON object or document."""
    return Member(
        user=user,
        role=fields["r"],
        intervals=tuple((int(first), None if last == -1 else int(last)) for first, last in fields["i"]),
        joined_at_ms=int(fields["j"]),
    )


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """What a group keeps about itself, beside its counters."""

    name: str
    avatar_url: str | None
    owner: UserId
    full_history: bool
    created_at_ms: int
    sub_biz: str | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """A conversation as its readers see it: only what is durable.

    A group that was dissolved stays readable to those who were in it, up to `ended_at`; a dismissed one is gone.
    """

    conversation: ConversationId
    kind: ConversationKind
    seq: int
    last: Message | None
    member_count: int
    group: GroupInfo | None
    ended_at: int | None = None
    dismissed: bool = False

    @property
    def dissolved(self) -> bool:
        """Whether it is a group that has ended, one way or the other."""
        return self.ended_at is not None
