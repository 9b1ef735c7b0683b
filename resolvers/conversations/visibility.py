"""Visible ranges: which messages a member may read, by seq and never by time."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.ids import ConversationId, UserId, parse_private
from store.conversations.conversation import Member
from store.store import Store

SeqRange = tuple[int, int | None]
"""First and last readable seq, ends included; None: no end."""


def visible_ranges(member: Member, *, full_history: bool) -> list[SeqRange]:
    """Return the ranges that a member or former member of a group may read, oldest first.

    With FULL history members read everything, and former members everything up to their last departure.
    """
    if full_history:
        return not_empty([(1, member.intervals[-1][1])])
    return not_empty(member.intervals)


def not_empty(ranges: Sequence[SeqRange]) -> list[SeqRange]:
    """Drop intervals of members who left before the first message."""
    return [(first, last) for first, last in ranges if last is None or first <= last]


def is_visible(seq: int, ranges: Sequence[SeqRange]) -> bool:
    """Return whether a seq lies in one of the ranges."""
    for first, last in ranges:  # noqa: SIM110  # as an expression it takes three times as long
        if first <= seq and (last is None or seq <= last):
            return True
    return False


def clip_ranges(ranges: Sequence[SeqRange], first: int, last: int) -> list[tuple[int, int]]:
    """Return the parts of the ranges between two seqs, ends included."""
    clipped = [(max(a, first), last if b is None else min(b, last)) for a, b in ranges]
    return [(a, b) for a, b in clipped if a <= b]


async def list_viewers(store: Store, conversation: ConversationId, seq: int) -> list[UserId]:
    """Return the current members of a conversation who can read the message at a seq."""
    people = parse_private(conversation)
    if people is not None:
        return list(people[:2])
    head = await store.conversations.find(conversation)
    if head is None or head.group is None:
        return []
    full_history = head.group.full_history
    members = [member for member in await store.conversations.list_members(conversation) if member.is_current]
    return [m.user for m in members if is_visible(seq, visible_ranges(m, full_history=full_history))]
