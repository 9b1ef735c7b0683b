"""The two places for cached state: the deployment's Redis, and the Redis fallback of this process (ADR 20, ADR 31).

All rules about cached state are in the scripts, and both backends run the same scripts. They differ only in what
`CacheBackend` lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol
from weakref import WeakValueDictionary

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationId
from store.redis.calls import Call, ReadScripts
from store.redis.client import RedisClient
from store.redis.keys import Keys
from store.redis.request_scope import current_prefix, request_prefix

_log = structlog.get_logger()

_NO_TURN: AbstractAsyncContextManager[Any] = nullcontext()


class CacheBackend(Protocol):
    """Runs the calls of repositories."""

    @property
    def is_shared(self) -> bool:
        """True if other servers, and later requests, see what is written here."""
        ...

    @property
    def request_prefix(self) -> str:
        """Key namespace of the current request; empty if requests share one."""
        ...

    def run(self, calls: Sequence[Call]) -> Awaitable[list[Any]]:
        """Return the replies in order, error replies as exceptions in their places. Raises Unreachable."""
        ...

    async def load_scripts(self) -> None:
        """Load all scripts before they are called. Raises Unreachable."""
        ...

    def fence(self, number: int, at_ms: int) -> int:
        """Return the fence of a lock holder: larger than the fence of each earlier holder of the same lock.

        Args:
            number: As counted by the lock script.
            at_ms: A time later than anything on the user's clock.
        """
        ...

    def turn(self, conversation: ConversationId) -> AbstractAsyncContextManager[Any]:
        """Return a context that orders the senders of a conversation, if `reserve` does not order them."""
        ...


class SharedBackend:
    """The deployment's Redis: shared by all servers."""

    is_shared = True
    request_prefix = ""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def run(self, calls: Sequence[Call]) -> Awaitable[list[Any]]:
        """Return the replies in order, error replies as exceptions in their places. Raises Unreachable."""
        return self._client.run(calls)

    async def load_scripts(self) -> None:
        """Load all scripts before they are called. Raises Unreachable."""
        await self._client.load_scripts()

    def fence(self, number: int, at_ms: int) -> int:
        """Return the script's number: Redis counts the holders of each lock."""
        return number

    def turn(self, conversation: ConversationId) -> AbstractAsyncContextManager[Any]:
        """Return an empty context: `reserve` orders all senders."""
        return _NO_TURN


class FallbackBackend:
    """A Redis for this process alone. Each request has its own keys, so nothing is shared and nothing can be stale.

    A request loads what it needs from MongoDB, as with a cold cache. MongoDB also decides between concurrent writes: by
    the unique place of a message, fences and versions.
    """

    is_shared = False

    def __init__(self, url: str, read_scripts: ReadScripts) -> None:
        """Create the client. The first call connects."""
        self._client = RedisClient(url, Keys(""), read_scripts)
        self._turns: WeakValueDictionary[ConversationId, asyncio.Lock] = WeakValueDictionary()

    @property
    def request_prefix(self) -> str:
        """Key namespace of the current request; empty outside all requests."""
        return current_prefix()

    def run(self, calls: Sequence[Call]) -> Awaitable[list[Any]]:
        """Run the calls on keys of the current request. Raises Unreachable."""
        prefix = request_prefix()
        return self._client.run([replace(call, keys=tuple(prefix + key for key in call.keys)) for call in calls])

    async def load_scripts(self) -> None:
        """Load all scripts before they are called. Raises Unreachable."""
        await self._client.load_scripts()

    def fence(self, number: int, at_ms: int) -> int:
        """Return the later of the two: the count starts again with each request, and clocks of servers differ."""
        return max(number, at_ms)

    def turn(self, conversation: ConversationId) -> AbstractAsyncContextManager[Any]:
        """Return a lock of this process. Without it, all its senders would reserve the same seq."""
        return self._turns.setdefault(conversation, asyncio.Lock())

    async def clear(self) -> None:
        """Remove everything. A failure is only logged, because later requests use other key names."""
        try:
            results = await self._client.run([Call("FLUSHALL", ())])
            failures = [result for result in results if isinstance(result, Exception)]
        except StoreError as error:
            failures = [error]
        if failures:
            _log.warning("redis_fallback_not_emptied", reason=str(failures[0]))

    async def close(self) -> None:
        """End all connections."""
        await self._client.close()
