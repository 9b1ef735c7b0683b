"""One operation of a connection, from its subscribe to its last frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import structlog

from subscriptions.engine import ConnectionContext, GraphQLRequest, Json, Prepared, RequestRefused, error
from subscriptions.transport import frames
from subscriptions.transport.host import Host
from subscriptions.transport.writing import FrameWriter, PeerGone

log = structlog.get_logger(__name__)

_EVENTS_A_TURN = 32
"""Events sent before other tasks get a turn: with events ready and a socket that takes them, nothing pauses."""


def internal_error(host: Host, connection_id: str) -> Json:
    """What a client is told of the exception being handled: nothing but an id that finds it in the log."""
    correlation_id = host.new_id()
    log.exception("operation_failed", correlation_id=correlation_id, connection_id=connection_id)
    return error("Something went wrong on the server.", "INTERNAL", correlationId=correlation_id)


class Operation:
    """A query, mutation or subscription at work in a task of its own.

    Its frames leave in order, ending with exactly one `complete` or `error`, unless it is abandoned before.
    """

    def __init__(
        self,
        id: str,
        prepared: Prepared,
        request: GraphQLRequest,
        context: ConnectionContext,
        host: Host,
        writer: FrameWriter,
    ) -> None:
        self.id = id
        self.is_mutation = prepared.kind == "mutation"
        self._prepared = prepared
        self._request = request
        self._context = context
        self._host = host
        self._writer = writer
        self._wanted = True
        self.task: asyncio.Task[None] = asyncio.create_task(self._run())

    def abandon(self) -> None:
        """Send nothing more. A query or subscription is cancelled, a mutation goes on to its end."""
        self._wanted = False
        if not self.is_mutation:
            self.task.cancel()

    def on_end(self, call: Callable[[], object]) -> None:
        """Call this when the task has ended, its cleaning up included."""
        self.task.add_done_callback(lambda _task: call())

    async def _run(self) -> None:
        try:
            await self._write(await self._work())
        except PeerGone:
            return

    async def _work(self) -> str:
        """Do it all, and return the last frame."""
        try:
            try:
                if self._prepared.kind == "subscription":
                    await self._stream()
                else:
                    await self._execute()
            except RequestRefused as refused:
                return frames.error_frame(self.id, refused.errors)
        except PeerGone:
            raise
        except Exception:
            return frames.error_frame(self.id, [internal_error(self._host, self._context.request_id)])
        return frames.complete_frame(self.id)

    async def _execute(self) -> None:
        response = await self._host.engine.execute(self._prepared, self._request, self._context)
        await self._write(frames.next_frame(self.id, response))

    async def _stream(self) -> None:
        events = await self._host.engine.subscribe(self._prepared, self._request, self._context)
        try:
            sent = 0
            async for response in events:
                await self._write(frames.next_frame(self.id, response))
                sent += 1
                if sent % _EVENTS_A_TURN == 0:
                    await asyncio.sleep(0)
        finally:
            await _close(events)

    async def _write(self, frame: str) -> None:
        await self._writer.write(frame, lambda: self._wanted)


async def _close(events: AsyncIterator[Json]) -> None:
    aclose = getattr(events, "aclose", None)
    if aclose is not None:
        await aclose()
