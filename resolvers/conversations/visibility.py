"""Visible ranges: which messages a member may read, by seq and never by time."""

from __future__ import annotations

from collections.abc import Sequence

from store.conversations.conversation import Head, Member
from store.store import Store

SeqRange = tuple[int, int | None]
"""First and last readable seq, ends included; None: no end."""


def visible_ranges(member: Member, *, full_history: bool, floor_seq: int) -> list[SeqRange]:
    """Return the ranges that a member or former member of a group may read, oldest first: none up to the floor.

    With FULL history members read everything, and former members everything up to their last departure.
    """
    if full_history:
        return above_floor([(1, member.intervals[-1][1])], floor_seq)
    return above_floor(member.intervals, floor_seq)


def above_floor(ranges: Sequence[SeqRange], floor_seq: int) -> list[SeqRange]:
    """Return what is left of ranges without expired messages: those up to the floor (ADR 99)."""
    return not_empty([(max(first, floor_seq + 1), last) for first, last in ranges])


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


def sees_whole_thread(parent_seq: int, ranges: Sequence[SeqRange]) -> bool:
    """Return whether a reader of a parent conversation may read all replies in the thread under a message.

    ranges: The ranges of the parent conversation that the reader may read, oldest first.
    """
    return bool(ranges) and ranges[-1][1] is None and ranges[-1][0] <= parent_seq


async def thread_ranges(store: Store, head: Head, parent_seq: int, ranges: Sequence[SeqRange]) -> list[SeqRange]:
    """Return the ranges of a thread that are readable, oldest first: replies whose `parent_seq` is in the ranges.

    No round trip for readers who were in the parent conversation all the time since the parent message.

    Args:
        store: The repositories.
        head: The head of the thread.
        parent_seq: The seq of the parent message.
        ranges: The ranges of the parent conversation that the reader may read, oldest first.
    """
    if sees_whole_thread(parent_seq, ranges):
        return [(1, None)]
    found: list[SeqRange] = []
    for begin, end in ranges:
        if end is not None and end < parent_seq:
            continue
        first = 1 if begin <= parent_seq else await _first_reply(store, head, begin)
        last = await _last_reply(store, head, end) if end is not None else None
        found.append((first, last))
    return not_empty(found)


async def _first_reply(store: Store, head: Head, begin: int) -> int:
    """Return the seq of the first reply whose `parent_seq` is at least this; that of the next reply if there is none.

    Replies that are not durable yet do not count: a page ends at the newest reply of the head.
    """
    if head.newest is None or head.newest.parent_seq < begin:
        return head.seq + 1
    found = await store.reply_boundaries.find(head.conversation, begin - 1, head.seq)
    return found.first_after if found.first_after is not None else head.seq + 1


async def _last_reply(store: Store, head: Head, end: int) -> int:
    """Return the seq of the last reply whose `parent_seq` is at most this; 0 if there is none."""
    if head.newest is None or head.newest.parent_seq <= end:
        return head.seq
    return (await store.reply_boundaries.find(head.conversation, end, head.seq)).last_before
