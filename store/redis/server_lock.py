"""A lock for work that only one server of the deployment should do at a time."""

from __future__ import annotations

from store.base.errors import StoreError
from store.redis.cache import Cache, Call


class LockLost(StoreError):
    """Raised when the lock has expired, or another server has it."""


class ServerLock:
    """A lock in Redis: a key with the name of the server that has it. The lock expires if that server dies.

    It prevents double work. It does not protect data: if a server pauses, the lock can expire and go to another server
    before the first one notices.
    """

    def __init__(self, cache: Cache, key: str, owner: str, lifetime_ms: int) -> None:
        """Do not take the lock yet. lifetime_ms: time after which it expires unless it is extended."""
        self._cache = cache
        self._key = key
        self._owner = owner
        self._lifetime_ms = lifetime_ms

    async def take(self) -> bool:
        """Take the lock if it is free. Return whether this succeeded. Raises Unreachable."""
        taken = await self._cache.one(Call("SET", (self._key,), (self._owner, "NX", "PX", self._lifetime_ms)))
        return taken is not None

    async def extend(self) -> None:
        """Extend the lock by its full lifetime from now. Raises Unreachable, and LockLost if it was lost."""
        if not await self._is_held() and not await self.take():
            raise LockLost("another server has taken the lock meanwhile")
        await self._cache.one(Call("SET", (self._key,), (self._owner, "XX", "PX", self._lifetime_ms)))

    async def release(self) -> None:
        """Release the lock if this server has it. Raises Unreachable."""
        if await self._is_held():
            await self._cache.one(Call("DEL", (self._key,)))

    async def _is_held(self) -> bool:
        return bool(await self._cache.one(Call("GET", (self._key,))) == self._owner.encode())
