"""One operation of a connection, from its subscribe to its last frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from subscriptions.transport import frames
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLRequest,
    Json,
    Prepared,
    RequestRefused,
    StreamEnded,
    encode,
    error,
)
from subscriptions.transport.frame_writer import FrameWriter, PeerGone
from subscriptions.transport.host import Host

log = structlog.get_logger(__name__)

_EVENTS_A_TURN = 64
"""Events sent before others on the loop get their turn: with events ready and a socket that takes them, nothing pauses."""


def internal_error(host: Host, connection_id: str) -> Json:
    """What a client is told of the exception being handled: nothing but an id that finds it in the log."""
    correlation_id = host.new_id()
    log.exception("operation_failed", correlation_id=correlation_id, connection_id=connection_id)
    return error("Something went wrong on the server.", "INTERNAL", correlationId=correlation_id)


class ClientOperation:
    """A query, mutation or subscription at work.

    Its frames leave in order, ending with exactly one `complete` or `error`, unless it is abandoned before. A subscription
    that has begun is no task: its events are written as they are ready, by whoever made them so.
    """

    __slots__ = (
        "_frame_start",
        "_host",
        "_on_end",
        "_request_id",
        "_stream",
        "_turn_asked",
        "_wanted",
        "_writer",
        "id",
        "is_mutation",
        "task",
    )

    def __init__(
        self,
        id: str,
        prepared: Prepared,
        request: GraphQLRequest,
        context: ConnectionContext,
        host: Host,
        writer: FrameWriter,
        on_end: Callable[[ClientOperation], None],
    ) -> None:
        """`on_end` is called when it has ended, its cleaning up included."""
        self.id = id
        self.is_mutation = prepared.kind == "mutation"
        self._host = host
        self._writer = writer
        self._on_end: Callable[[ClientOperation], None] | None = on_end
        self._request_id = context.request_id
        self._frame_start = frames.next_frame_start(id)
        self._wanted = True
        self._turn_asked = False
        self._stream: EventStream | None = None
        begin = self._subscribe if prepared.kind == "subscription" else self._execute
        self.task: asyncio.Task[None] | None = asyncio.create_task(self._run(begin(prepared, request, context)))

    def abandon(self) -> None:
        """Send nothing more. A query or subscription is ended, a mutation goes on to its end."""
        self._wanted = False
        if self.task is None:
            self._end()
        elif not self.is_mutation:
            self.task.cancel()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        last = None
        try:
            try:
                await work
            except RequestRefused as refused:
                last = frames.error_frame(self.id, refused.errors)
            except PeerGone:
                raise
            except Exception:
                last = frames.error_frame(self.id, [internal_error(self._host, self._request_id)])
            if last is not None:
                await self._writer.write(last, lambda: self._wanted)
        except PeerGone:
            pass
        finally:
            self.task = None
            if self._stream is None:
                self._end()

    async def _execute(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> None:
        response = await self._host.engine.execute(prepared, request, context)
        result = b"".join((self._frame_start, encode(response), b"}"))
        await self._writer.write(result, lambda: self._wanted, then=frames.complete_frame(self.id).encode())

    async def _subscribe(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> None:
        stream = await self._host.engine.subscribe(prepared, request, context)
        if self._wanted:
            self._stream = stream
            stream.on_ready(self._send_ready)
            self._send_ready()
        else:
            stream.close()

    def _send_ready(self) -> None:
        """Writes the events that are there, while the peer reads them."""
        stream, writer = self._stream, self._writer
        if stream is None or self._turn_asked:
            return
        try:
            for _ in range(_EVENTS_A_TURN):
                if not writer.is_free:
                    self._turn_asked = True
                    writer.in_turn(self._take_turn)
                    return
                response = stream.take()
                if response is None:
                    return
                writer.put(self._frame_start, response, b"}")
        except StreamEnded:
            self._finish(frames.complete_frame(self.id))
        except RequestRefused as refused:
            self._finish(frames.error_frame(self.id, refused.errors))
        except Exception:
            self._finish(frames.error_frame(self.id, [internal_error(self._host, self._request_id)]))
        else:
            self._turn_asked = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_asked = False
        self._send_ready()

    def _finish(self, last: str) -> None:
        self._writer.put(last.encode())
        self._end()

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
            self._writer.without_turn(self._take_turn)
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)
