"""The times at which servers were last heard from, in one hash of the deployment in Redis (ADR 80)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from store.base.clock import Clock
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

KEPT_MS = 24 * 3600 * 1000
"""Time for which the last report of a server is kept."""


class ServerTime(NamedTuple):
    """heard_ms: when the server last reported. has_ended: it reported its end."""

    heard_ms: int
    has_ended: bool


class ServerTimes:
    """Reports that this server is alive, and reads when others did. Entries of the last day are kept."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    async def report(self, server: str, *, has_ended: bool = False) -> Mapping[str, ServerTime]:
        """Note that a server is alive at present, or ends, and return the times of all servers.

        One round trip that no request waits for. Raises StoreError.
        """
        self._cache.require_shared()
        now_ms = self._clock.now_ms()
        args = (now_ms, server, int(has_ended), now_ms - KEPT_MS)
        (answer,) = await self._cache.run_in_background([Call("report_server", (self._keys.server_times,), args)])
        return {name.decode(): _time_from(value) for name, value in zip(answer[::2], answer[1::2], strict=True)}

    async def read(self) -> Mapping[str, ServerTime]:
        """Return the times of all servers that reported in the last day. Changes nothing. Raises StoreError."""
        (answer,) = await self._cache.run_in_background([Call("HGETALL", (self._keys.server_times,))])
        return {name.decode(): _time_from(value) for name, value in zip(answer[::2], answer[1::2], strict=True)}


def _time_from(value: bytes) -> ServerTime:
    heard, has_ended, *_ = value.split()
    return ServerTime(int(heard), has_ended == b"1")
