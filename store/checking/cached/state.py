"""A user's cached state as the script `read_state` returns it, and whether its parts agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from store.base.ids import ConversationId
from store.sessions.loading.loaded_channels import LoadedChannels
from store.sessions.records import Records
from store.sessions.session import Session
from store.sessions.session_lists import Record, SessionLists

Disagreement = tuple[str, Any, Any]
"""A part of a state, its value, and the value that its records give."""

_ACTIVE_TS = Session.active_ts.stored
_SUMS = ("nb", "nc", "ub", "uc", "qb", "qc", "tb")
"""Beginnings of the fields of `meta` with sums of lists."""


@dataclass(frozen=True, slots=True)
class CachedPart:
    """Sessions with their ticks and entries of lists: those in channels, or all others."""

    records: Records
    ticks: Mapping[str, int]
    entries: frozenset[str]


@dataclass(frozen=True, slots=True)
class CachedState:
    """A cached state. channels: None if they are not loaded."""

    meta: Mapping[str, str]
    sessions: CachedPart
    mutes: frozenset[tuple[int, str]]
    channels: CachedPart | None

    def disagreements(self) -> Iterator[Disagreement]:
        """Yield the lists, sums and other parts that do not follow from the records."""
        lists = SessionLists()
        # Gateways come last, because they have sums of the others.
        for conversation in sorted(self.sessions.records, key=lambda name: name.startswith("b_")):
            lists.add(conversation, self.sessions.records[conversation])
        mutes = set(lists.mute_ends)
        yield from _compare_part("", self.sessions, frozenset(lists.entries))
        if self.channels is not None:
            channels = LoadedChannels(self.channels.records)
            yield from _compare_part("channels: ", self.channels, frozenset(channels.entries))
            mutes |= set(channels.mute_ends)
        if self.channels is not None or not any(name.startswith("c_") for _, name in self.mutes):
            yield from _if_different("ends of mutes", sorted(self.mutes), sorted(mutes))
        yield from _if_different("total of unread messages", int(self.meta.get("total", 0)), lists.total_unread)
        totals = ("mentions", "threads")
        stored = {name: int(value) for name, value in self.meta.items() if name in totals or name.startswith(_SUMS)}
        for name in sorted(stored.keys() | lists.sums.keys()):
            yield from _if_different(f"sum {name}", stored.get(name, 0), lists.sums.get(name, 0))
        for conversation, record in self.sessions.records.items():
            if conversation.startswith("b_"):
                yield from _compare_gateway(conversation, record, lists)


def parse_state(answer: Sequence[Any]) -> CachedState:
    """Return the state in an answer of `read_state` that is not empty."""
    meta, records, ticks, entries, mutes, *channels = answer
    return CachedState(
        {name.decode(): value.decode() for name, value in _pairs(meta)},
        _part_from(records, ticks, entries),
        frozenset((int(ends), name.decode()) for name, ends in _pairs(mutes)),
        _part_from(*channels) if channels else None,
    )


def _part_from(records: Sequence[bytes], ticks: Sequence[bytes], entries: Sequence[bytes]) -> CachedPart:
    return CachedPart(
        {ConversationId(name.decode()): orjson.loads(text) for name, text in _pairs(records)},
        {name.decode(): int(tick) for name, tick in _pairs(ticks)},
        frozenset(entry.decode() for entry in entries),
    )


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _compare_part(name: str, part: CachedPart, entries: frozenset[str]) -> Iterator[Disagreement]:
    expected = {conversation: record[_ACTIVE_TS] for conversation, record in part.records.items()}
    for conversation in sorted(part.ticks.keys() | expected.keys()):
        yield from _if_different(
            f"{name}tick of {conversation}", part.ticks.get(conversation), expected.get(ConversationId(conversation))
        )
    for entry in sorted(part.entries ^ entries):
        yield f"{name}entry {entry.split(chr(10))} of a list", entry in part.entries, entry in entries


def _compare_gateway(conversation: str, record: Record, lists: SessionLists) -> Iterator[Disagreement]:
    inside = lists.sub_biz(conversation.removeprefix("b_"))
    gateway = {
        "valid sessions": (record.get(Session.valid_inside.stored, 0), inside.valid_count),
        "unread messages": (record.get(Session.unread_inside.stored, 0), inside.unread_count),
        "unread mentions": (record.get(Session.mentions_inside.stored, 0), inside.unread_mention_count),
        "unread threads": (record.get(Session.threads_inside.stored, 0), inside.unread_threads),
        "newest session": (record.get(Session.newest_inside.stored), inside.newest),
    }
    for name, (stored, expected) in gateway.items():
        yield from _if_different(f"{conversation}: {name}", stored, expected)


def _if_different(name: str, stored: Any, expected: Any) -> Iterator[Disagreement]:
    if stored != expected:
        yield name, stored, expected
