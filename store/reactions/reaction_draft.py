"""Changes of a message's reactions, applied to its summary in memory. What results is stored in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from store.base.ids import UserId
from store.reactions.reaction_summary import KEY_LENGTH, MOST_KEYS, ReactionSummary

MOST_EMOJI = 50
"""Different emoji on one message."""

MOST_EMOJI_OF_USER = 20
"""Different emoji of one user on one message."""

Reaction = tuple[str, UserId]
"""Emoji and user."""


class ReactionChangeKind(Enum):
    """Kinds of changes."""

    ADD = auto()
    REMOVE = auto()
    CLEAR = auto()
    """Removes the reactions of all users."""


class ReactionRefusal(Enum):
    """Reasons why a change is not made."""

    GONE = auto()
    """There is no such message any more."""
    RECALLED = auto()
    NEEDS_PERMISSION = auto()
    """The emoji is new on the message, and the user may not add one."""
    TOO_MANY_EMOJI = auto()
    TOO_MANY_OF_USER = auto()


@dataclass(frozen=True, slots=True)
class ReactionChange:
    """A change that a user asks for.

    Attributes:
        kind: What it does.
        user: Who asks for it.
        emoji: The emoji; None: all (CLEAR only).
        may_introduce: The user may add an emoji that is not on the message yet.
        judged_version: Policy version under which the user's rights in a channel were judged; None: not in a channel.
        audit: The row of an entry of the audit log, stored with the change (CLEAR only).
    """

    kind: ReactionChangeKind
    user: UserId
    emoji: str | None
    may_introduce: bool = True
    judged_version: int | None = None
    audit: Mapping[str, Any] | None = None


class ReactionDraft:
    """The reactions of a message while changes are applied to them, one after the other."""

    def __init__(self, summaries: Sequence[ReactionSummary]) -> None:
        """Begin with the summary that is stored."""
        self._summaries = {summary.emoji: summary for summary in summaries}
        """By emoji, in the order in which they were first used."""
        self._rows: dict[Reaction, bool] = {}
        """Reactions that the summary does not tell, and those that were changed: whether they exist."""
        self.added: dict[Reaction, int] = {}
        """Rows to insert, in order, with the time (ms) of each."""
        self.removed: dict[Reaction, None] = {}
        """Rows to delete, before others are inserted."""

    def list_unknown(self, changes: Iterable[ReactionChange]) -> list[Reaction]:
        """Return the reactions whose existence decides on additions and removals, and that the summary does not tell.

        Pass them to `note_rows`, with what MongoDB has.
        """
        asked = [
            change for change in changes if change.emoji is not None and change.kind is not ReactionChangeKind.CLEAR
        ]
        emoji = {change.emoji for change in asked} | self._summaries.keys()
        unknown: dict[Reaction, None] = {}
        for change in asked:
            assert change.emoji is not None
            is_added = change.kind is ReactionChangeKind.ADD
            # Nobody has more different emoji than the message.
            concerned = self._summaries if is_added and len(emoji) > MOST_EMOJI_OF_USER else (change.emoji,)
            for each in concerned:
                summary = self._summaries.get(each)
                if summary is not None and summary.has(change.user) is None:
                    unknown[each, change.user] = None
        return list(unknown)

    def note_rows(self, rows: Mapping[Reaction, bool]) -> None:
        """Note which reactions exist."""
        self._rows |= rows

    def apply(self, change: ReactionChange, now_ms: int) -> ReactionRefusal | None:
        """Apply an addition or a removal. Return why it is refused; None if it is made, or changes nothing."""
        assert change.emoji is not None
        emoji, user = change.emoji, change.user
        if (change.kind is ReactionChangeKind.ADD) == self._has(emoji, user):
            return None
        if change.kind is ReactionChangeKind.REMOVE:
            self._remove(emoji, user)
            return None
        known = self._summaries.get(emoji)
        if known is None and not change.may_introduce:
            return ReactionRefusal.NEEDS_PERMISSION
        if known is None and len(self._summaries) >= MOST_EMOJI:
            return ReactionRefusal.TOO_MANY_EMOJI
        if self._count_of(user) >= MOST_EMOJI_OF_USER:
            return ReactionRefusal.TOO_MANY_OF_USER
        self._add(emoji, user, now_ms)
        return None

    def cut(self, emoji: str, count: int) -> None:
        """Leave out the last reactions with an emoji, whose rows are removed by other means."""
        self._put(self._summaries[emoji].without_last(count))

    @property
    def summaries(self) -> tuple[ReactionSummary, ...]:
        """The reactions as they are in the draft."""
        return tuple(self._summaries.values())

    def list_unnamed(self) -> list[str]:
        """Return the emoji of which one of the first users is not named. Pass them to `name`."""
        return [summary.emoji for summary in self._summaries.values() if summary.lacks_names]

    def name(self, emoji: str, users: Sequence[UserId]) -> None:
        """Set the first users of an emoji."""
        self._put(self._summaries[emoji].named(users))

    def limit_keys(self) -> None:
        """Leave out keys if there are too many."""
        while sum(len(summary.keys) for summary in self._summaries.values()) > MOST_KEYS * KEY_LENGTH:
            self._put(max(self._summaries.values(), key=lambda summary: len(summary.keys)).without_keys())

    def _has(self, emoji: str, user: UserId) -> bool:
        row = self._rows.get((emoji, user))
        if row is not None:
            return row
        summary = self._summaries.get(emoji)
        return summary is not None and bool(summary.has(user))

    def _count_of(self, user: UserId) -> int:
        if len(self._summaries) < MOST_EMOJI_OF_USER:
            return 0
        return sum(self._has(emoji, user) for emoji in self._summaries)

    def _add(self, emoji: str, user: UserId, now_ms: int) -> None:
        # Servers' clocks differ: times follow the order of the emoji.
        at_ms = max(now_ms, *(summary.first_at_ms for summary in self._summaries.values()), 0)
        self._put(self._summaries.get(emoji, ReactionSummary(emoji, 0, (), at_ms)).with_user(user))
        self._rows[emoji, user] = True
        self.added[emoji, user] = at_ms

    def _remove(self, emoji: str, user: UserId) -> None:
        self._put(self._summaries[emoji].without_user(user))
        self._rows[emoji, user] = False
        if self.added.pop((emoji, user), None) is None:
            self.removed[emoji, user] = None

    def _put(self, summary: ReactionSummary) -> None:
        if summary.user_count:
            self._summaries[summary.emoji] = summary
        else:
            del self._summaries[summary.emoji]
