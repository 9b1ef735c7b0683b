"""A user's state, without channels, as a load has read it from MongoDB: answers reads before Redis has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, repeat
from typing import Any

import orjson

from store.base.ids import ConversationId, UserId
from store.sessions.records import Records
from store.sessions.session import Session
from store.sessions.session_lists import SessionLists, is_valid, list_entry, parse_entry

_ACTIVE_TS = Session.active_ts.stored


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Some of a user's sessions, read at one moment. `clock`: the user's clock then, within `epoch`."""

    epoch: str
    clock: int
    total_unread: int
    sessions: tuple[Session, ...]
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedState:
    """A user's state at the beginning of an epoch.

    Attributes:
        user: The user.
        epoch: The epoch that the cached state will have.
        clock: The user's clock. Changes after it are events of the cached state.
        records: All sessions and gateways, without those in channels.
        lists: Their lists and sums.
        has_channel_mutes: A mute of a session in a channel ends by itself.
    """

    user: UserId
    epoch: str
    clock: int
    records: Records
    lists: SessionLists
    has_channel_mutes: bool = False

    @property
    def next_mute_end_ms(self) -> int | None:
        """End of the next mute; None if there is none."""
        return min((ends for ends, _ in self.lists.mute_ends), default=None)

    def is_outdated(self, now_ms: int) -> bool:
        """Return whether a mute has ended that this state still has."""
        next_mute_end_ms = self.next_mute_end_ms
        return next_mute_end_ms is not None and next_mute_end_ms <= now_ms

    def find(self, conversations: Sequence[ConversationId]) -> Snapshot:
        """Return the sessions of some conversations. Missing ones are left out."""
        return self._snapshot(conversation for conversation in conversations if conversation in self.records)

    def page(self, name: str, limit: int, after: tuple[int, str] | None) -> Snapshot:
        """Return sessions of a list in display order, after a position and the conversation at it."""
        before = list_entry(name, *after) if after is not None else None
        places = [parse_entry(entry) for entry in nlargest(limit, self.lists.entries_of(name, before))]
        return self._snapshot((name for _, name in places), tuple(position for position, _ in places))

    def changed(self, after: int, limit: int, *, valid_until: int) -> Snapshot:
        """Return sessions whose `active_ts` is past a position, oldest change first.

        valid_until: Position up to which only valid sessions are returned.
        """
        moved = sorted(
            (record[_ACTIVE_TS], conversation)
            for conversation, record in self.records.items()
            if record[_ACTIVE_TS] > after and (record[_ACTIVE_TS] > valid_until or is_valid(conversation, record))
        )
        return self._snapshot(conversation for _, conversation in moved[:limit])

    def _snapshot(self, conversations: Iterator[ConversationId], positions: tuple[int, ...] = ()) -> Snapshot:
        sessions = tuple(Session(self.user, name, self.records[name]) for name in conversations)
        return Snapshot(self.epoch, self.clock, self.lists.total_unread, sessions, positions)

    def parts(self, size: int) -> Iterator[list[Any]]:
        """Yield what `load_part` stores, as its arguments, for up to `size` sessions and entries of lists at once."""
        names, entries, mute_ends = list(self.records), self.lists.entries, self.lists.mute_ends
        for start in range(0, max(len(names), len(entries)), size):
            some = names[start : start + size]
            records = [self.records[name] for name in some]
            # Redis takes plain integers only, and MongoDB returns others.
            ticks = [int(record[_ACTIVE_TS]) for record in records]
            words: list[Any] = []
            for key, pairs in (
                ("sessions", zip(some, map(orjson.dumps, records), strict=True)),
                ("index", zip(ticks, some, strict=True)),
                ("list", zip(repeat(0), entries[start : start + size], strict=False)),
                ("mutes", mute_ends[start : start + size]),
            ):
                members = list(chain.from_iterable(pairs))
                words += (key, len(members))
                words += members
            yield words

    @property
    def totals(self) -> list[Any]:
        """Arguments of `load_finish` from the epoch on: the numbers that it stores and checks."""
        lists = self.lists
        next_mute_end_ms = self.next_mute_end_ms
        return [
            self.epoch,
            int(self.clock),
            len(self.records),
            len(lists.entries),
            len(lists.mute_ends),
            lists.total_unread,
            next_mute_end_ms if next_mute_end_ms is not None else "",
            *(word for pair in lists.sums.items() for word in pair),
            *(("channel_mutes", 1) if self.has_channel_mutes else ()),
        ]
