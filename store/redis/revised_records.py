"""Copies in Redis of rows of users in MongoDB that have a revision, so that reads do not need MongoDB (ADR 67).

The record of a user is a hash: the value with its revision, and a field for each change that is being made, with the
time at which it began (ms). While there is such a field, readers use MongoDB.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import orjson

from store.base.clock import Clock
from store.base.ids import UserId
from store.redis.cache import Cache, Call

_VALUE = b"value"
_REVISION = b"revision"

_KEPT_MS = 24 * 3600 * 1000
_LONGEST_CHANGE_MS = 120_000
"""A change that is older has ended: its server has died, or did not get the outcome. Writes take less time."""

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class RevisedRow(Protocol[V_co]):
    """A row of MongoDB."""

    @property
    def value(self) -> V_co:
        """The value."""
        ...

    @property
    def revision(self) -> int:
        """The number of changes so far; 0: there is no row yet."""
        ...


FindRows = Callable[[Collection[UserId]], Awaitable[Mapping[UserId, RevisedRow[V]]]]
"""Returns the row of each of some users: one round trip to MongoDB."""


class RevisedRecords(Generic[V]):
    """Reads and writes the records of one kind. All methods that wait raise StoreError."""

    def __init__(
        self,
        find_rows: FindRows[V],
        encode: Callable[[V], Any],
        decode: Callable[[Any], V],
        key_of: Callable[[UserId], str],
        cache: Cache,
        clock: Clock,
    ) -> None:
        """Connect the parts. encode: returns the JSON value that Redis has, from which decode makes the value."""
        self._find_rows = find_rows
        self._encode = encode
        self._decode = decode
        self._key_of = key_of
        self._cache = cache
        self._clock = clock

    def read_call(self, user: UserId) -> Call:
        """Return the call that reads a record. `complete` takes its answer."""
        return Call("HGETALL", (self._key_of(user),))

    async def read(self, user: UserId) -> V:
        """Return the value of a user: one round trip to Redis if it has it. Else one more to each database."""
        return await self.complete(user, await self._cache.one(self.read_call(user)))

    async def complete(self, user: UserId, answer: Sequence[bytes]) -> V:
        """Return a value by the answer of Redis. If it does not have it, one round trip to each database."""
        changes = dict(zip(answer[::2], answer[1::2], strict=True))
        cached = changes.pop(_VALUE, None)
        changes.pop(_REVISION, None)
        if cached is not None and not changes:
            return self._decode(orjson.loads(cached))
        oldest_ms = self._clock.now_ms() - _LONGEST_CHANGE_MS
        ended = [name.decode() for name, began_ms in changes.items() if int(began_ms) < oldest_ms]
        row = (await self._find_rows((user,)))[user]
        if len(ended) == len(changes):
            await self.put(user, row, ended)
        return row.value

    async def reload(self, users: Collection[UserId]) -> None:
        """Load values that may be out of date: one round trip to each database."""
        rows = await self._find_rows(users)
        await self._cache.run([self._put_call(user, row) for user, row in rows.items()])

    async def begin_change(self, user: UserId) -> str:
        """Let readers use MongoDB until the change is put. Return the field of the change. One round trip."""
        key, change = self._key_of(user), f"c{secrets.token_hex(8)}"
        await self._cache.run(
            [Call("HSET", (key,), (change, self._clock.now_ms())), Call("PEXPIRE", (key,), (_KEPT_MS,))]
        )
        return change

    async def put(self, user: UserId, row: RevisedRow[V], ended: Sequence[str] = ()) -> None:
        """Put a row into the record, unless it has a later one, and remove fields of changes. One round trip."""
        await self._cache.one(self._put_call(user, row, ended))

    def _put_call(self, user: UserId, row: RevisedRow[V], ended: Sequence[str] = ()) -> Call:
        form = orjson.dumps(self._encode(row.value))
        return Call("put_revised_record", (self._key_of(user),), (row.revision, form, _KEPT_MS, *ended))
