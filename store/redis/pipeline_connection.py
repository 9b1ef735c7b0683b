"""One connection to Redis with at most one pipeline in flight, written and read directly at its transport.

redis-py opens the connection (address, TLS, password, database). After that its own layers are bypassed, because each
of them costs as much as the command itself: hiredis encodes commands and parses replies (ADR 17, ADR 32).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from store.redis.calls import Call, error_reply

_INCOMPLETE = object()
"""Returned by hiredis when the next reply has not arrived completely."""

Encode = Callable[[Sequence[Call]], bytes]
"""Turns the calls of one caller into bytes. Called at the moment of sending; an exception fails that caller only."""


class PendingCalls:
    """The calls of one caller, which stay together and in order, and the future of their replies."""

    __slots__ = ("calls", "queued_at", "replies", "size", "was_never_sent")

    def __init__(self, calls: Sequence[Call], loop: asyncio.AbstractEventLoop) -> None:
        self.calls = calls
        self.size = len(calls)
        self.queued_at = loop.time()
        self.was_never_sent = False
        """True if it failed because no connection could be opened: Redis executed nothing of it."""
        self.replies: asyncio.Future[list[Any]] = loop.create_future()

    def fail(self, error: Exception) -> None:
        """Raise an error to the caller, who gets no replies."""
        if not self.replies.done():
            self.replies.set_exception(error)


class PipelineConnection(asyncio.Protocol):
    """One connection with at most one pipeline in flight. If it is lost, only the callers in that pipeline fail."""

    def __init__(
        self,
        connection: AbstractConnection,
        encode: Encode,
        timeout_seconds: float,
        on_idle: Callable[[PipelineConnection], None],
        on_lost: Callable[[PipelineConnection], None],
    ) -> None:
        """Take over an open connection.

        Args:
            connection: Opened and authenticated by redis-py.
            encode: Turns calls into bytes.
            timeout_seconds: The connection ends if Redis sends nothing for this time while replies are missing.
            on_idle: Called when all replies of a pipeline have arrived.
            on_lost: Called when the connection has ended.
        """
        self.connection = connection
        self._encode = encode
        self._timeout_seconds = timeout_seconds
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        # redis-py has no public way to its transport.
        writer = connection._writer
        assert writer is not None
        self._transport = cast(asyncio.Transport, writer.transport)
        self._reader = hiredis.Reader(replyError=error_reply, notEnoughData=_INCOMPLETE)
        self._pending: deque[PendingCalls] = deque()
        self._replies: list[Any] = []
        self._last_data_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport.set_protocol(self)

    @property
    def is_usable(self) -> bool:
        """True if a pipeline may be sent."""
        return not (self._pending or self._transport.is_closing())

    def send(self, batch: list[PendingCalls]) -> None:
        """Send one pipeline. Callers whose calls cannot be encoded fail; the others are sent. Requires `is_usable`."""
        encoded = []
        for pending in batch:
            try:
                encoded.append(self._encode(pending.calls))
            except Exception as error:
                pending.fail(error)
            else:
                self._pending.append(pending)
        if not encoded:
            self._on_idle(self)
            return
        self._last_data_at = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._last_data_at + self._timeout_seconds, self._check_timeout)
        self._transport.write(b"".join(encoded))

    def data_received(self, data: bytes) -> None:
        """Parse replies and hand them to their callers."""
        reader, replies, pending = self._reader, self._replies, self._pending
        self._last_data_at = self._loop.time()
        try:
            reader.feed(data)
            while True:
                if not pending:
                    # A further reply would be taken for the first reply of the next pipeline.
                    if reader.has_data():
                        self._end(RedisConnectionError("Redis sent a reply to no request"))
                    else:
                        self._on_idle(self)
                    return
                reply = reader.gets()
                if reply is _INCOMPLETE:
                    return
                replies.append(reply)
                if len(replies) == pending[0].size:
                    answered = pending.popleft().replies
                    if not answered.done():
                        answered.set_result(replies)
                    replies = self._replies = []
        except hiredis.ProtocolError as error:
            self._end(RedisConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the callers of the pipeline in flight."""
        self._end(RedisConnectionError("the connection was lost"))

    def close(self) -> None:
        """End the connection and fail the callers of the pipeline in flight."""
        self._end(RedisConnectionError("the connection was closed"))

    def _check_timeout(self) -> None:
        # One timer while anything is in flight, instead of one for each pipeline.
        self._timer = None
        if not self._pending:
            return
        deadline = self._last_data_at + self._timeout_seconds
        if self._loop.time() < deadline:
            self._timer = self._loop.call_at(deadline, self._check_timeout)
        else:
            self._end(RedisTimeoutError("no reply in time"))

    def _end(self, error: RedisError) -> None:
        failed, self._pending = self._pending, deque()
        for pending in failed:
            pending.fail(error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.abort()
        self._on_lost(self)
