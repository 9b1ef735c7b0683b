"""The cache as repositories see it.

The one place that selects the Redis fallback while the deployment's Redis is unavailable (ADR 31).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from store.base.background import count_trips
from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.redis.admission import Admit
from store.redis.backends import CacheBackend, FallbackBackend, SharedBackend
from store.redis.calls import Call, ReadScripts
from store.redis.client import RedisClient
from store.redis.keys import Keys

__all__ = ["Cache", "Call"]


class _Trips:
    """Round trips of one of several calls that run at the same time."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


_own_trips: ContextVar[_Trips | None] = ContextVar("cache_trips", default=None)
"""The round trips of the current call, if it was made through `Cache.gather`."""


_LATELY_SECONDS = 10.0
"""Longest time of a write that has begun in the fallback."""


class Cache:
    """Runs commands and scripts on the deployment's Redis, or on the Redis fallback while `use_fallback` is in effect.

    `trips` counts the round trips that callers wait for, `background_trips` the others. Of calls made through `gather`
    only those of the longest one count.
    """

    def __init__(self, url: str, read_scripts: ReadScripts, *, prefix: str = "") -> None:
        """Create the client; the first call connects. url: of a Redis or a cluster. prefix: of all key names."""
        self.keys = Keys(prefix)
        self._read_scripts = read_scripts
        self._redis = RedisClient(url, self.keys, read_scripts)
        self._shared = SharedBackend(self._redis)
        self._fallback: FallbackBackend | None = None
        self._backend: CacheBackend = self._shared
        self.trips = self.background_trips = 0
        self._left_fallback_at = -math.inf

    @property
    def is_shared(self) -> bool:
        """True if other servers, and later requests, see what is written here. False while the fallback is used."""
        return self._backend.is_shared

    @property
    def used_fallback_lately(self) -> bool:
        """True while the fallback is used, and for a while after: a write that failed may have begun before its end."""
        return not self.is_shared or time.monotonic() - self._left_fallback_at < _LATELY_SECONDS

    def require_shared(self) -> None:
        """Raise Unreachable while the fallback is used: for work that is useless unless other servers see it."""
        if not self._backend.is_shared:
            raise Unreachable("Redis is unavailable", "redis")

    @contextmanager
    def shared_throughout(self) -> Iterator[None]:
        """Raise Unreachable at the end if the fallback was used when the block began, or is used then.

        The block runs in the fallback too: its effects are right for this process.
        """
        was_shared = self.is_shared
        yield
        if not (was_shared and self.is_shared):
            raise Unreachable("Redis is unavailable, or was a moment ago", "redis")

    def use_fallback(self, url: str) -> None:
        """Run all calls on the Redis at a URL, which belongs to this process, until `leave_fallback`."""
        self._redis.drop()
        self._backend = self._fallback = FallbackBackend(url, self._read_scripts)

    async def leave_fallback(self) -> None:
        """Run all calls on the deployment's Redis again, and empty the fallback.

        Does nothing unless the fallback is used.
        """
        fallback, self._fallback, self._backend = self._fallback, None, self._shared
        if fallback is not None:
            self._left_fallback_at = time.monotonic()
            await fallback.clear()
            await fallback.close()

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Return the results of all calls in order.

        One round trip, no transaction. Raises Unreachable if any call failed.
        """
        results = await self.attempt(calls)
        for result in results:
            if isinstance(result, Exception):
                raise Unreachable(str(result), "redis") from result
        return results

    async def run_in_background(self, calls: Sequence[Call]) -> list[Any]:
        """Like `run`, for work that no request waits for."""
        self._count(-1)
        self.background_trips += 1
        return await self.run(calls)

    async def one(self, call: Call) -> Any:
        """Return the result of one call. One round trip. Raises Unreachable if it failed."""
        return (await self.run((call,)))[0]

    async def attempt(self, calls: Sequence[Call]) -> list[Any]:
        """Like `run`, but an error reply is returned in the place of the result.

        Raises Unreachable if replies are missing. In a cluster, the failures of single nodes are in the places of their
        results instead.
        """
        self._count(1)
        if not calls:
            return []
        return await self._backend.run(calls)

    async def run_reachable(self, calls: Sequence[Call]) -> list[Any]:
        """Return the results of the calls that succeed. Raises Unreachable if none does."""
        attempted = await self.attempt(calls)
        results = [result for result in attempted if not isinstance(result, Exception)]
        if attempted and not results:
            raise Unreachable(str(attempted[0]), "redis")
        return results

    async def attempt_in_background(self, calls: Sequence[Call]) -> list[Any]:
        """Like `attempt`, for work that no request waits for."""
        self._count(-1)
        self.background_trips += 1
        return await self.attempt(calls)

    async def gather(self, *calls: Awaitable[Any]) -> list[Any]:
        """Run calls concurrently and return their results. Counts as many round trips as the call that needs most.

        Raises the first failure after all calls have ended.
        """
        counters = [_Trips() for _ in calls]

        async def run_one(call: Awaitable[Any], trips: _Trips) -> Any:
            _own_trips.set(trips)
            return await call

        try:
            results = await asyncio.gather(*map(run_one, calls, counters), return_exceptions=True)
        finally:
            # If this was canceled at once, some have not begun. Python warns about coroutines that never begin.
            for call in calls:
                if asyncio.iscoroutine(call):
                    call.close()
        self._count(max((trips.count for trips in counters), default=0))
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def _count(self, trips: int) -> None:
        own = _own_trips.get()
        if own is None:
            count_trips(self, trips)
        else:
            own.count += trips

    async def load_scripts(self) -> None:
        """Load all scripts before they are called.

        Otherwise each is loaded when its first call fails. Raises Unreachable.
        """
        await self._backend.load_scripts()

    @property
    def request_prefix(self) -> str:
        """Key namespace of the current request; empty while the deployment's Redis is used.

        Loads that requests share are identified by it too.
        """
        return self._backend.request_prefix

    def fence(self, number: int, at_ms: int) -> int:
        """Return the fence of a lock holder: see `CacheBackend.fence`."""
        return self._backend.fence(number, at_ms)

    def turn(self, conversation: ConversationId) -> AbstractAsyncContextManager[Any]:
        """Return a context to hold from the reservation of a message until it is durable: see `CacheBackend.turn`."""
        return self._backend.turn(conversation)

    @property
    def url(self) -> str:
        """The URL of the deployment's Redis."""
        return self._redis.url

    @property
    def is_cluster(self) -> bool:
        """True if the deployment's Redis is a cluster."""
        return self._redis.is_cluster

    def owner(self, key: str) -> str:
        """Return the address of the cluster's node that owns a key, as far as is known; "" if there is one Redis."""
        return self._redis.owner(key)

    @property
    def queued(self) -> int:
        """Callers whose calls were not sent yet."""
        return self._redis.queued

    def admit_with(self, admit: Admit) -> None:
        """Let a function admit or refuse each new connection to the deployment's Redis."""
        self._redis.admission.admit = admit

    async def ping(self) -> bool:
        """Return whether all of Redis answers; False if only a part of a cluster does. Raises Unreachable if none does.

        Afterwards the key names are those of its generation.
        """
        return await self._redis.ping()

    async def check_health(self) -> None:
        """Raise Unreachable if requests cannot be answered because of Redis. Needs no MongoDB, except on a cluster."""
        if self._backend.is_shared:
            await self._redis.ping_without_admission()

    def drop(self) -> None:
        """End all connections to the deployment's Redis and fail all callers. Later calls go over new connections."""
        self._redis.drop()

    def drop_shards(self, shards: Collection[str]) -> None:
        """Like `drop`, for the connections to some shards of a cluster. shards: their ids."""
        self._redis.drop_shards(shards)

    async def close(self) -> None:
        """End all connections."""
        await self._redis.close()
        if self._fallback is not None:
            await self._fallback.close()

    def publish_call(self, channel: str, frame: bytes) -> Call:
        """Return the call that publishes a frame. In a cluster it goes to the node that owns the channel only.

        While that node is away, it goes to all others.
        """
        if self.is_cluster and not self._redis.is_away(channel):
            return Call("SPUBLISH", (channel,), (frame,))
        return Call("PUBLISH", (), (channel, frame))

    def is_away(self, key: str) -> bool:
        """Return whether the node of a cluster that owns a key or a channel has not answered for some time."""
        return self._redis.is_away(key)

    def is_slot_away(self, slot: int) -> bool:
        """Return whether the node of a cluster that owns a slot has not answered for some time."""
        return self._redis.is_slot_away(slot)

    def widen_slots(self, slots: Collection[int]) -> Collection[int]:
        """Return all slots of the nodes of a cluster that own one of the given slots, as far as is known."""
        return self._redis.widen_slots(slots)

    async def find_url(self, channel: str) -> str:
        """Return the URL of the Redis at which to subscribe to a channel; of any node while its own is away.

        Raises Unreachable.
        """
        return await self._redis.find_url(channel)

    def is_owner(self, channel: str, url: str) -> bool:
        """Return whether the Redis at a URL still serves a channel."""
        return self._redis.is_owner(channel, url)
