"""One operation of a connection, from its subscribe frame to its last frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from subscriptions.transport import frames
from subscriptions.transport.close_codes import Close
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLRequest,
    Json,
    OperationHandle,
    RequestRefused,
    StreamEnded,
    encode,
    make_error,
)
from subscriptions.transport.frame_writer import FrameWriter, PeerGone
from subscriptions.transport.host import Host
from subscriptions.transport.server_frames import text_frame

log = structlog.get_logger(__name__)

_RETRY_AFTER_MS = 1_000
"""Sent with the refusal of an operation that has to wait for the client's own operations to end."""

_MAX_ID_LENGTH = 1024
"""Characters of an operation's id, which is sent with each of its events."""

_MAX_EVENTS_PER_TURN = 64
"""Events sent before other tasks of the event loop run. Without it, a fast peer with events ready would block them."""


def internal_error(host: Host, connection_id: str) -> Json:
    """Log the exception being handled, and return the error for the client: an id that finds it in the log."""
    correlation_id = host.new_id()
    log.exception("operation_failed", correlation_id=correlation_id, connection_id=connection_id)
    return make_error("Something went wrong on the server.", "INTERNAL", correlationId=correlation_id)


def check_operation(id: str, running: int, max_running: int) -> None:
    """Check the id of an operation, and how many run on its connection. Raises RequestRefused."""
    if running >= max_running:
        message = f"A connection may run {max_running} operations at once. End one of them first."
        raise RequestRefused([make_error(message, "RATE_LIMITED", retryable=True, retryAfterMs=_RETRY_AFTER_MS)])
    if len(id) > _MAX_ID_LENGTH:
        message = f"The id of an operation may have at most {_MAX_ID_LENGTH} characters."
        raise RequestRefused([make_error(message, "INVALID_INPUT")])


def check_not_ending(close: Close | None) -> None:
    """Check that the connection does not wait for its last mutations before it is closed. Raises RequestRefused."""
    if close is None:
        return
    if close.retryable:
        raise RequestRefused([make_error("The server restarts. Reconnect.", "UNAVAILABLE", retryable=True)])
    raise RequestRefused([make_error(f"The connection ends: {close.reason}.", "UNAVAILABLE")])


class ClientOperation:
    """A running query, mutation or subscription.

    Its frames leave in order and end with exactly one `complete` or `error`, unless it is abandoned before. A
    subscription that has begun needs no task: its events are written in the call that makes them available.
    """

    __slots__ = (
        "_frame_start",
        "_host",
        "_is_abandoned",
        "_is_send_queued",
        "_on_end",
        "_request_id",
        "_stream",
        "_writer",
        "id",
        "is_mutation",
        "task",
    )

    def __init__(
        self,
        id: str,
        prepared: OperationHandle,
        request: GraphQLRequest,
        context: ConnectionContext,
        host: Host,
        writer: FrameWriter,
        on_end: Callable[[ClientOperation], None],
    ) -> None:
        """Start the operation. `on_end` is called when it has ended and is cleaned up."""
        self.id = id
        self.is_mutation = prepared.kind == "mutation"
        self._host = host
        self._writer = writer
        self._on_end: Callable[[ClientOperation], None] | None = on_end
        self._request_id = context.request_id
        self._frame_start = frames.next_frame_start(id)
        self._is_abandoned = False
        self._is_send_queued = False
        self._stream: EventStream | None = None
        begin = self._subscribe if prepared.kind == "subscription" else self._execute
        self.task: asyncio.Task[None] | None = asyncio.create_task(self._run(begin(prepared, request, context)))

    def abandon(self) -> None:
        """Send nothing more. A query or subscription is ended; a mutation runs to its end."""
        self._is_abandoned = True
        if self.task is None:
            self._end()
        elif not self.is_mutation:
            self.task.cancel()

    def _is_wanted(self) -> bool:
        return not self._is_abandoned

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        last_frame = None
        try:
            try:
                await work
            except RequestRefused as refused:
                last_frame = frames.error_frame(self.id, refused.errors)
            except PeerGone:
                raise
            except Exception:
                last_frame = frames.error_frame(self.id, [internal_error(self._host, self._request_id)])
            if last_frame is not None:
                await self._writer.write(last_frame, self._is_wanted)
        except PeerGone:
            pass
        finally:
            self.task = None
            if self._stream is None:
                self._end()

    async def _execute(self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext) -> None:
        response = await self._host.engine.execute(prepared, request, context)
        result = b"".join((self._frame_start, encode(response), b"}"))
        await self._writer.write(result, self._is_wanted, then=frames.complete_frame(self.id).encode())

    async def _subscribe(self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext) -> None:
        stream = await self._host.engine.subscribe(prepared, request, context)
        if self._is_abandoned:
            stream.close()
        else:
            self._stream = stream
            stream.on_ready(self._send_available)
            stream.write_to(self)
            self._send_available()

    @property
    def is_writable(self) -> bool:
        """True if the peer reads, and no event waits for its turn."""
        return self._writer.is_writable and not self._is_send_queued

    def write(self, response: bytes) -> None:
        """Write the response to an event. Call it only while `is_writable`."""
        self._writer.write_soon(text_frame(self._frame_start, response, b"}"))

    def _send_available(self) -> None:
        """Write the available events while the peer reads them."""
        stream, writer = self._stream, self._writer
        if stream is None or self._is_send_queued:
            return
        try:
            for _ in range(_MAX_EVENTS_PER_TURN):
                if not writer.is_writable:
                    self._is_send_queued = True
                    writer.call_when_writable(self._send_queued)
                    return
                response = stream.take()
                if response is None:
                    return
                self.write(response)
        except StreamEnded:
            self._finish(frames.complete_frame(self.id))
        except RequestRefused as refused:
            self._finish(frames.error_frame(self.id, refused.errors))
        except Exception:
            self._finish(frames.error_frame(self.id, [internal_error(self._host, self._request_id)]))
        else:
            self._is_send_queued = True
            asyncio.get_running_loop().call_soon(self._send_queued)

    def _send_queued(self) -> None:
        self._is_send_queued = False
        self._send_available()

    def _finish(self, last_frame: str) -> None:
        self._writer.write_soon(text_frame(last_frame.encode()))
        self._end()

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
            self._writer.cancel_call(self._send_queued)
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)
