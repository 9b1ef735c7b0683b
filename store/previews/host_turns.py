"""Turns for requests to other sites: one a second to each host, over all servers.

While Redis is unavailable, each process takes turns on its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from store.base.errors import StoreError, Unreachable
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

TURN_MS = 1000
"""Time of one turn."""

MAX_WAITING = 5
"""Requests of this process that may wait for one host."""

_WAIT_SECONDS = 5.0


class HostBusy(StoreError):
    """Too many requests wait for a host. A later attempt may succeed."""


@dataclass(slots=True)
class _Host:
    """`free_at`: time of the event loop at which this process may take the next turn."""

    free_at: float = 0.0
    waiting: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class HostTurns:
    """Gives out turns in the order in which they were asked for, in this process."""

    def __init__(
        self, cache: Cache, keys: Keys, *, turn_ms: int = TURN_MS, wait_seconds: float = _WAIT_SECONDS
    ) -> None:
        self._cache = cache
        self._keys = keys
        self._turn_ms = turn_ms
        self._wait_seconds = wait_seconds
        self._hosts: dict[str, _Host] = {}

    async def wait(self, name: str) -> None:
        """Return when a host may be asked. Raises HostBusy if too many wait, or after five seconds."""
        async with self._in_queue(name) as host:
            try:
                async with asyncio.timeout(self._wait_seconds), host.lock:
                    await asyncio.sleep(host.free_at - asyncio.get_running_loop().time())
                    await self._take(name)
                    host.free_at = asyncio.get_running_loop().time() + self._turn_ms / 1000
            except TimeoutError:
                raise HostBusy("the host is asked too often") from None

    @asynccontextmanager
    async def _in_queue(self, name: str) -> AsyncIterator[_Host]:
        host = self._hosts.setdefault(name, _Host())
        if host.waiting >= MAX_WAITING:
            raise HostBusy("too many requests wait for the host")
        host.waiting += 1
        try:
            yield host
        finally:
            host.waiting -= 1
            if not host.waiting:
                self._forget_later(name, host)

    def _forget_later(self, name: str, host: _Host) -> None:
        """Forget a host once its turn is over, unless it is used again."""

        def forget() -> None:
            if not host.waiting and self._hosts.get(name) is host and loop.time() >= host.free_at:
                del self._hosts[name]

        loop = asyncio.get_running_loop()
        loop.call_at(host.free_at + 0.001, forget)

    async def _take(self, name: str) -> None:
        """Take a turn from all servers, or none if Redis is unavailable."""
        key = self._keys.host_turn(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32])
        try:
            while True:
                self._cache.require_shared()
                taken, left_ms = await self._cache.run_in_background(
                    [Call("SET", (key,), ("", "NX", "PX", self._turn_ms)), Call("PTTL", (key,))]
                )
                if taken:
                    return
                await asyncio.sleep(max(1, min(left_ms, self._turn_ms)) / 1000)
        except Unreachable:
            return
