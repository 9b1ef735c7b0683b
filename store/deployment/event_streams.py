"""Locations of event streams, by token.

A user reserves a token and opens its stream once, on one server. The token ends with the stream.

Every server must find the stream that a request names, and only Redis is shared. Operations for a stream that is
reserved but not opened yet wait here for the server that opens it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from store.redis.cache import Cache, Call
from store.redis.keys import Keys

RESERVED_MS = 60_000
"""A reservation ends after this time, unless its stream is opened."""

OPEN_MS = 90_000
"""A stream counts as closed if its server has not renewed it for this time."""

MAX_QUEUED_OPERATIONS = 20
"""Operations that may wait for one stream."""

MAX_OPERATION_BYTES = 16_384
"""Bytes of an operation that may wait for its stream."""


@dataclass(frozen=True, slots=True)
class StreamLocation:
    """The owner of a stream and the server that holds it. None: the stream is not opened yet."""

    owner: str
    server: str | None


class QueueOutcome(Enum):
    """Outcome of queueing an operation for a stream that is not opened yet."""

    QUEUED = auto()
    EXISTS = auto()
    """An operation with this id waits already."""
    FULL = auto()
    """The operation is too long, or too many wait."""


class EventStreamStore:
    """Tokens of event streams in Redis. All methods raise Unreachable."""

    def __init__(self, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._keys = keys

    async def reserve(self, token: str, owner: str) -> None:
        """Reserve a token that is not known yet."""
        await self._run(Call("SET", (self._owner(token),), (owner, "PX", RESERVED_MS)))

    async def find(self, token: str) -> StreamLocation | None:
        """Return the location of a stream. None: the token does not exist, or has ended."""
        owner, server = await self._run(Call("GET", (self._owner(token),)), Call("GET", (self._server(token),)))
        return StreamLocation(owner.decode(), server.decode() if server else None) if owner else None

    async def open(self, token: str, owner: str, server: str) -> list[bytes] | None:
        """Open a stream on a server, and return the operations that wait for it, in no order.

        None: it is open already.
        """
        (is_first,) = await self._run(Call("SET", (self._server(token),), (server, "NX", "PX", OPEN_MS)))
        if not is_first:
            return None
        waiting = self._waiting(token)
        _, operations, _ = await self._run(
            Call("SET", (self._owner(token),), (owner, "PX", OPEN_MS)),
            Call("HVALS", (waiting,)),
            Call("DEL", (waiting,)),
        )
        return list(operations)

    async def renew(self, server: str, streams: Iterable[tuple[str, str]]) -> None:
        """Renew the streams that a server holds."""
        self._cache.require_shared()
        calls = []
        for token, owner in streams:
            calls.append(Call("SET", (self._owner(token),), (owner, "PX", OPEN_MS)))
            calls.append(Call("SET", (self._server(token),), (server, "PX", OPEN_MS)))
        if calls:
            await self._cache.run_in_background(calls)

    async def delete(self, token: str) -> None:
        """Remove a stream that has ended."""
        keys = (self._owner(token), self._server(token), self._waiting(token))
        await self._cache.run_in_background([Call("DEL", (key,)) for key in keys])

    async def enqueue(
        self, token: str, operation: str, request: bytes, max_queued: int = MAX_QUEUED_OPERATIONS
    ) -> QueueOutcome:
        """Queue an operation until the stream is opened, unless `max_queued` operations wait already."""
        if len(request) > MAX_OPERATION_BYTES:
            return QueueOutcome.FULL
        waiting = self._waiting(token)
        added, count, _ = await self._run(
            Call("HSETNX", (waiting,), (operation, request)),
            Call("HLEN", (waiting,)),
            Call("PEXPIRE", (waiting,), (RESERVED_MS,)),
        )
        if not added:
            return QueueOutcome.EXISTS
        if count > max_queued:
            await self.withdraw(token, operation)
            return QueueOutcome.FULL
        return QueueOutcome.QUEUED

    async def withdraw(self, token: str, operation: str) -> bool:
        """Remove an operation from the queue. False: it is not in the queue; the stream may have taken it over."""
        (removed,) = await self._run(Call("HDEL", (self._waiting(token),), (operation,)))
        return bool(removed)

    async def _run(self, *calls: Call) -> list[Any]:
        self._cache.require_shared()
        return await self._cache.run(calls)

    def _owner(self, token: str) -> str:
        return self._keys.event_stream(token, "user")

    def _server(self, token: str) -> str:
        return self._keys.event_stream(token, "server")

    def _waiting(self, token: str) -> str:
        return self._keys.event_stream(token, "waiting")
