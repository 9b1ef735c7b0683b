"""Presence records in Redis, with the part that is loaded from MongoDB.

That part is loaded when a record without it is read or changed, and again for a reader after an hour. So a part that
is out of date because its server died between its two writes does not stay for ever, and the time of a read does not
depend on whether the user has connected devices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.ids import UserId
from store.presence.cached_record import CachedRecord, record_from, row_args
from store.presence.presence_record import PresenceRecord
from store.presence.presence_rows import PresenceRow, PresenceRows
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

READ_AGAIN_MS = 3_600_000
"""Time after which the part from MongoDB is loaded again for a reader."""


class ChangedPresence(NamedTuple):
    """A change of a record.

    Attributes:
        before: The record before it; None: not known, so watching servers may have an even older one.
        record: The record after it.
        servers: The servers that show the user to somebody; ALL_SERVERS if Redis may have lost some of them.
    """

    before: PresenceRecord | None
    record: PresenceRecord
    servers: Sequence[str]


class CachedChange(NamedTuple):
    """The answer of a script that changes a record."""

    before: CachedRecord
    after: CachedRecord
    servers: Sequence[str]


class PresenceCache:
    """Reads records, and loads what is missing. All methods raise StoreError."""

    def __init__(self, rows: PresenceRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self.on_reloaded: Callable[[Collection[ChangedPresence]], None] = lambda changes: None
        """Called with records that may have been out of date. It must not block."""
        self.on_missing: Callable[[Collection[UserId]], None] = lambda users: None
        """Called with users whose records were not there when they were read or when a device was written: Redis may
        have evicted them, with their devices and the servers that show them. It must not block."""

    def read_calls(self, users: Iterable[UserId]) -> list[Call]:
        """Return the calls that read records."""
        return [Call("HGETALL", self._keys.presence(user)[:1]) for user in users]

    def script(self, name: str, user: UserId, *args: Any) -> Call:
        """Return a call of a script on the keys of a user."""
        return Call(name, self._keys.presence(user), (self._clock.now_ms(), *args))

    async def complete(self, answers: Mapping[UserId, Sequence[bytes]]) -> dict[UserId, PresenceRecord]:
        """Return records for a reader, by the answers of Redis. What is missing is loaded."""
        read_again_ms = self._clock.now_ms() - READ_AGAIN_MS
        found, missing, evicted = dict[UserId, PresenceRecord](), list[UserId](), list[UserId]()
        for user, answer in answers.items():
            cached = record_from(user, answer)
            found[user] = cached.record
            if not cached.record.version:
                evicted.append(user)
            if not cached.is_complete or cached.read_at_ms is None or cached.read_at_ms < read_again_ms:
                missing.append(user)
        loaded = await self.load(missing, is_for_reader=True)
        if evicted:
            self.on_missing(evicted)
        return found | {user: change.after.record for user, change in loaded.items()}

    async def load(self, users: Collection[UserId], *, is_for_reader: bool = False) -> dict[UserId, CachedChange]:
        """Load the part of MongoDB into records: one round trip to each database, none if there are no users.

        A later part that is there already is kept.
        """
        if not users:
            return {}
        rows = await self._rows.find(users)
        calls = [self.load_call(user, row, is_for_reader=is_for_reader) for user, row in rows.items()]
        answers = await self._cache.run(calls)
        return {user: change_from(user, answer) for user, answer in zip(rows, answers, strict=True)}

    def load_call(self, user: UserId, row: PresenceRow, *, is_for_reader: bool = False) -> Call:
        """Return the call that puts a row into a record, unless it has a later one."""
        return self.script("load_presence", user, *row_args(row), int(is_for_reader))

    async def reload(self, users: Collection[UserId]) -> None:
        """Load the part of MongoDB into records that may be out of date, and notify the watching servers."""
        loaded = await self.load(users)
        self.on_reloaded([ChangedPresence(None, change.after.record, change.servers) for change in loaded.values()])


def change_from(user: UserId, answer: Sequence[Any]) -> CachedChange:
    """Return the change by the answer of a script that makes it."""
    before, after, servers = answer
    return CachedChange(record_from(user, before), record_from(user, after), [server.decode() for server in servers])
