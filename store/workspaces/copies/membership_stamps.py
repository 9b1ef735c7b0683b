"""Stamps in Redis that show whether a copy of something about members is up to date (ADR 66).

A stamp changes with what it stands for: the list of a user's workspaces, or the number of a workspace's members. A copy
that was read from MongoDB after a stamp is up to date as long as the stamp stays. The key is a hash: `stamp`, and a
field for each change that is being made, with the time at which it began (ms).
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

from store.base.clock import Clock
from store.base.errors import Refused, StoreError
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_STAMP = "stamp"

_IDLE_MS = 24 * 3600 * 1000

_LONGEST_CHANGE_MS = 120_000
"""Longer than a transaction lasts. Then the server that made the change has died, or did not learn its outcome."""


class MembershipStamps:
    """Reads and changes stamps."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    def of_user(self, user: UserId) -> str:
        """Return the key of the stamp for the list of a user's workspaces."""
        return self._keys.of_user(user, "workspaces")

    def of_workspace(self, workspace: WorkspaceId) -> str:
        """Return the key of the stamp for the number of a workspace's members."""
        return self._keys.of_clock(workspace, "joins")

    @asynccontextmanager
    async def changing(self, users: Iterable[UserId], workspaces: Iterable[WorkspaceId] = ()) -> AsyncIterator[None]:
        """Surround the transaction in which users join workspaces.

        Three round trips. A block that raises Refused has changed nothing. After other errors the outcome may not be
        known: nothing is kept for two minutes.
        """
        keys = [*map(self.of_user, users), *map(self.of_workspace, workspaces)]
        if not self._cache.is_shared:
            # Servers that use Redis again begin with an empty one.
            yield
            return
        change = f"c{secrets.token_hex(8)}"
        await self._begin_change(keys, change)
        try:
            yield
        except Refused:
            # The stamps still stand for what is stored.
            with suppress(StoreError):
                await self._remove(keys, change)
            raise
        await self._end(keys, change)

    def read_call(self, key: str) -> Call:
        """Return the call that reads a stamp. `parse` reads its answer."""
        return Call("HGETALL", (key,))

    def parse(self, answer: Sequence[bytes]) -> str | None:
        """Return a stamp; None if there is none, "" while a change is being made or servers share no stamps."""
        if not self._cache.is_shared:
            return ""
        fields = dict(zip(answer[::2], answer[1::2], strict=True))
        stamp = fields.pop(_STAMP.encode(), None)
        if fields:
            newest_ms = max(map(int, fields.values()))
            return None if newest_ms < self._clock.now_ms() - _LONGEST_CHANGE_MS else ""
        return stamp.decode() if stamp is not None else None

    async def begin(self, keys: Iterable[str]) -> str:
        """Set the same new stamp for several keys that have none. Returns it."""
        stamp, wanted = secrets.token_hex(8), list(keys)
        if wanted:
            await self._cache.run([Call("DEL", (key,)) for key in wanted])
            await self._set(wanted, _STAMP, stamp)
        return stamp

    async def _begin_change(self, keys: Sequence[str], change: str) -> None:
        """Set a field for a change. Fields of changes whose outcome nobody learned are removed with their stamp."""
        answers = await self._set(keys, change, str(self._clock.now_ms()))
        for key, answer in zip(keys, answers, strict=True):
            oldest_ms = self._clock.now_ms() - _LONGEST_CHANGE_MS
            fields = zip(answer[::2], answer[1::2], strict=True)
            ended = [name.decode() for name, at in fields if name != _STAMP.encode() and int(at) < oldest_ms]
            if ended:
                await self._cache.one(Call("HDEL", (key,), (_STAMP, *ended)))

    async def _end(self, keys: Sequence[str], change: str) -> None:
        """Set a new stamp after a change."""
        await self._set(keys, _STAMP, secrets.token_hex(8))
        await self._remove(keys, change)

    async def _remove(self, keys: Sequence[str], change: str) -> None:
        await self._cache.run([Call("HDEL", (key,), (change,)) for key in keys])

    async def _set(self, keys: Sequence[str], field: str, value: str) -> list[list[bytes]]:
        """Set a field of each key. Returns all fields of each key."""
        calls = [Call("HSET", (key,), (field, value)) for key in keys]
        calls += [Call("PEXPIRE", (key,), (_IDLE_MS,)) for key in keys]
        return (await self._cache.run([*calls, *map(self.read_call, keys)]))[len(calls) :]
