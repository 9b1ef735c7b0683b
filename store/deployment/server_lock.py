"""A lock of the whole deployment: one server does some work, and no other does it at the same time."""

from __future__ import annotations

from store.base.errors import StoreError
from store.redis.cache import Cache, Call


class LockLost(StoreError):
    """The lock has ended, or another server has it."""


class ServerLock:
    """A key in Redis with the name of the server that has the lock. It ends by itself if that server dies.

    It saves work. It does not protect data: a server that is paused between two of its calls can have the lock together
    with another one.
    """

    def __init__(self, cache: Cache, key: str, owner: str, lifetime_ms: int) -> None:
        """Take nothing yet. lifetime_ms: time after which the lock ends unless it is extended."""
        self._cache = cache
        self._key = key
        self._owner = owner
        self._lifetime_ms = lifetime_ms

    async def take(self) -> bool:
        """Return whether this server has the lock now. Raises Unreachable."""
        taken = await self._cache.one(Call("SET", (self._key,), (self._owner, "NX", "PX", self._lifetime_ms)))
        return taken is not None

    async def extend(self) -> None:
        """Begin the life of the lock again. Raises Unreachable, and LockLost if this server has it no more."""
        if not await self._is_held():
            raise LockLost("another server has taken the lock meanwhile")
        await self._cache.one(Call("SET", (self._key,), (self._owner, "XX", "PX", self._lifetime_ms)))

    async def release(self) -> None:
        """End the lock if this server has it. Raises Unreachable."""
        if await self._is_held():
            await self._cache.one(Call("DEL", (self._key,)))

    async def _is_held(self) -> bool:
        return bool(await self._cache.one(Call("GET", (self._key,))) == self._owner.encode())
