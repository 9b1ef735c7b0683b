"""Connections to one Redis that concurrent callers share: simultaneous calls go out as one pipeline (ADR 17)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from store.base.errors import StoreError
from store.base.tasks import end_tasks
from store.redis.calls import Call
from store.redis.pipeline_connection import Encode, PendingCalls, PipelineConnection

_MAX_SHARED_COMMANDS = 256
"""Commands in one shared pipeline."""


class PipelinePool:
    """A limited number of connections, opened when they are needed.

    No caller waits for others to join a pipeline. Calls made while all connections are idle go out at once. While some
    are busy, all calls made within one turn of the event loop go out together; while all are busy, all calls made until
    one is idle.

    A failure, of a caller's calls or of a connection, reaches the callers of that pipeline only. A caller that is
    cancelled takes no replies from others; its calls may have been executed.
    """

    def __init__(
        self,
        connections: ConnectionPool,
        max_connections: int,
        timeout_seconds: float,
        *,
        shared: bool,
        encode: Encode,
        admit: Callable[[AbstractConnection], Awaitable[None]],
    ) -> None:
        """Open no connection yet.

        Args:
            connections: Creates connections of redis-py.
            max_connections: Largest number of open connections.
            timeout_seconds: How long a caller waits for an idle connection, and then without any data from Redis.
            shared: If false, each caller's calls are a pipeline of their own.
            encode: Turns calls into bytes at the moment of sending.
            admit: Awaited with each new connection before it is used. An exception refuses the connection.
        """
        self._loop: asyncio.AbstractEventLoop
        self._make_connection = connections.make_connection
        self._max_connections = max_connections
        self._timeout_seconds = timeout_seconds
        self._shared = shared
        self._encode = encode
        self._admit = admit
        self._queue: deque[PendingCalls] = deque()
        self._idle: list[PipelineConnection] = []
        self._connections: set[PipelineConnection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_flush_scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def queued(self) -> int:
        """Callers whose calls were not sent yet."""
        return len(self._queue)

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Return the replies to one caller's calls in order, error replies as exceptions in their places.

        Raises:
            RedisError, OSError: Not all replies arrived. Some of the calls may have been executed.
        """
        return await self.enqueue(calls).replies

    def enqueue(self, calls: Sequence[Call]) -> PendingCalls:
        """Begin `run` without waiting for the replies."""
        self._loop = asyncio.get_running_loop()
        pending = PendingCalls(calls, self._loop)
        self._queue.append(pending)
        if not self._is_flush_scheduled:
            if self._idle and len(self._idle) == len(self._connections) and not self._opening:
                self._flush()
            else:
                self._schedule_flush()
        return pending

    def drop(self) -> None:
        """End all connections and fail all callers. Later calls go over new connections."""
        while self._queue:
            self._queue.popleft().fail(RedisConnectionError("the connections were closed"))
        for connection in list(self._connections):
            connection.close()

    async def close(self) -> None:
        """Like `drop`, and wait until the connections have ended."""
        self.drop()
        await end_tasks(self._opening)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_idle(self, connection: PipelineConnection) -> None:
        self._idle.append(connection)
        if self._queue:
            # One turn later, because callers that have just been answered may make further calls.
            self._schedule_flush()

    def _on_lost(self, connection: PipelineConnection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            if connection in self._idle:
                self._idle.remove(connection)
            self._start(connection.connection.disconnect(nowait=True))
            if self._queue:
                self._schedule_flush()

    def _schedule_flush(self) -> None:
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        while self._queue:
            connection = self._take_idle()
            if connection is None and len(self._connections) + len(self._opening) >= self._max_connections:
                return
            batch = self._take_batch()
            if not batch:
                if connection is not None:
                    self._idle.append(connection)
                return
            if connection is not None:
                connection.send(batch)
            else:
                opening = self._start(self._open(batch))
                self._opening.add(opening)
                opening.add_done_callback(partial(self._on_opened, batch))

    def _take_idle(self) -> PipelineConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    def _take_batch(self) -> list[PendingCalls]:
        batch: list[PendingCalls] = []
        size, oldest_allowed = 0, self._loop.time() - self._timeout_seconds
        while self._queue and size < _MAX_SHARED_COMMANDS:
            pending = self._queue.popleft()
            if pending.queued_at < oldest_allowed:
                pending.fail(RedisTimeoutError("no connection was idle in time"))
            elif not pending.replies.done():
                batch.append(pending)
                size += pending.size
                if not self._shared:
                    break
        return batch

    async def _open(self, batch: list[PendingCalls]) -> None:
        connection: AbstractConnection = self._make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await self._admit(connection)
            opened = PipelineConnection(connection, self._encode, self._timeout_seconds, self._on_idle, self._on_lost)
        except (RedisError, OSError, StoreError, asyncio.CancelledError) as error:
            closed = RedisConnectionError("the connections were closed")
            for pending in batch:
                pending.was_never_sent = isinstance(error, RedisError | OSError)
                pending.fail(closed if isinstance(error, asyncio.CancelledError) else error)
            await connection.disconnect(nowait=True)
            return
        finally:
            self._opening.difference_update({asyncio.current_task()})
            if self._queue:
                self._schedule_flush()
        self._connections.add(opened)
        opened.send(batch)

    def _on_opened(self, batch: list[PendingCalls], opening: asyncio.Task[None]) -> None:
        """Fail the callers if opening was cancelled before it began, or raised an unexpected error."""
        self._opening.discard(opening)
        error = None if opening.cancelled() else opening.exception()
        for pending in batch if opening.cancelled() or error else ():
            failure = RedisConnectionError(str(error) if error else "the connections were closed")
            failure.__cause__ = error
            pending.fail(failure)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
