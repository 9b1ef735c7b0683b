"""One text/event-stream response: sends the responses of its operations as fast as the client reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from resolvers.users.callers import Caller
from server.http.response import internal_error
from server.http.uvicorn_protocol import ABORT_EXTENSION
from server.sse.framing import COMMENT, STREAM_HEADERS, Framing
from server.sse.operations import SingleResponseStream
from subscriptions.presence.connected_devices import DeviceConnection
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.realtime.unsent_answers import UnsentAnswers
from subscriptions.transport.engine import EventStream, RequestRefused, StreamEnded, encode

_CHUNK_BYTES = 65_536
_EXPIRY_RECHECK_SECONDS = 3600.0
"""Interval at which a later expiry is compared with the clock again, because clocks may be adjusted."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of event streams."""

    max_streams: int = 5_000
    """Streams of a process."""
    max_streams_per_user: int = 100
    """Streams of one user in a process."""
    max_operations: int = 100
    """Operations that run at once on one stream."""
    keep_alive_seconds: float = 12.0
    """Idle time after which a comment is sent."""
    max_queued_events: int = 1_000
    """Events that wait for the client, over all operations of a stream. If there are more, the client has to sync."""
    send_timeout_seconds: float = 10.0
    """Time limit for the client to accept a chunk."""
    sync_timeout_seconds: float = 30.0
    """Time limit for a client that has to sync to do so."""
    close_timeout_seconds: float = 2.0
    """Time limit for the client to accept the end of the stream."""
    grace_seconds: float = 10.0
    """Time limit for running queries and mutations when a stream is ended."""
    end_delay_seconds: float = 0.3
    """Delay before the server ends a stream. An operation may have just begun: npm graphql-sse waits forever if the
    response to its request arrives after the end of the stream."""
    drain_seconds: float = 5.0
    """Time over which many streams are ended at shutdown."""
    drain_batch: int = 100
    """Minimum number of streams ended at once."""
    drain_pause_seconds: float = 0.2
    """Average time between two batches; each pause is 50 to 150 % of it."""


class OperationExists(Exception):
    """Raised for the id of a running operation."""


class StreamEnding(Exception):
    """Raised when the stream is ending and starts no more operations."""


class TooManyOperations(Exception):
    """Raised when the stream runs the maximum number of operations."""


class StreamOperation:
    """An operation of a stream. `responses` is None until it has started."""

    def __init__(self, id: str | None, request_id: str) -> None:
        self.id = id
        self.request_id = request_id
        self.framing = Framing.of(id)
        self.responses: EventStream | None = None


class SSEStream:
    """ASGI application that answers a request with an event stream.

    Memory is bounded: the stream holds only the chunk being sent; events wait in the bounded queues of the operations.
    A client that reads nothing for `send_timeout_seconds` is disconnected. The operations are closed at the end.
    """

    def __init__(
        self,
        caller: Caller | None,
        limits: StreamLimits,
        clock: Callable[[], float],
        on_end: Callable[[SSEStream], None],
        unsent: UnsentAnswers | None = None,
        *,
        persistent: bool,
    ) -> None:
        """Create a stream. `clock` returns seconds since the epoch; `unsent` bounds the answers that wait.

        A `persistent` stream continues while no operation runs, and sends `complete` only for operations with an id.
        """
        self.caller = caller
        self.queue_budget = QueueBudget(limits.max_queued_events)
        """Budget for the queued events of its subscriptions."""
        self.device: DeviceConnection | None = None
        """The stream as one of its caller's devices; None for a stream with a single answer."""
        self._limits = limits
        self._clock = clock
        self._on_end = on_end
        self._unsent = unsent or UnsentAnswers()
        self._persistent = persistent
        self._loop = asyncio.get_running_loop()
        self._operations: dict[str | None, StreamOperation] = {}
        self._ready: dict[StreamOperation, None] = {}
        self._wake = asyncio.Event()
        self._ending = self._over = self._gone = self._closed = False
        self._comment_due = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._written_at = self._loop.time()
        self._sending_since: float | None = None
        self._interrupt = asyncio.timeout(None)
        self._abort: Callable[[], None] | None = None

    # Operations

    def reserve(self, id: str | None, request_id: str = "") -> StreamOperation:
        """Register an operation before it starts. Raises OperationExists, TooManyOperations and StreamEnding."""
        if self.is_ending:
            raise StreamEnding
        if id in self._operations:
            raise OperationExists
        if len(self._operations) >= self._limits.max_operations:
            raise TooManyOperations(
                f"An event stream may have {self._limits.max_operations} operations at once. Stop one first."
            )
        operation = self._operations[id] = StreamOperation(id, request_id)
        return operation

    def attach(self, operation: StreamOperation, responses: EventStream) -> bool:
        """Start to send an operation's responses. Returns False if it was stopped, or the stream ended, meanwhile."""
        if self._operations.get(operation.id) is not operation:
            responses.close()
            return False
        operation.responses = responses
        if isinstance(responses, SingleResponseStream):
            responses.count_in(self._unsent, self.caller.user_id if self.caller is not None else None)
        responses.on_ready(lambda: self._mark_ready(operation))
        self._mark_ready(operation)
        return True

    def stop(self, id: str | None) -> None:
        """End an operation without sending anything. Does nothing for an unknown id."""
        operation = self._operations.pop(id, None)
        if operation is not None:
            self._ready.pop(operation, None)
            if operation.responses is not None:
                operation.responses.close()

    def release(self, operation: StreamOperation) -> None:
        """Remove an operation that did not start."""
        if self._operations.get(operation.id) is operation:
            self.stop(operation.id)

    def _mark_ready(self, operation: StreamOperation) -> None:
        if self._operations.get(operation.id) is operation:
            self._ready[operation] = None
            self._wake.set()

    # Ending

    @property
    def is_ending(self) -> bool:
        """True if the stream starts no more operations."""
        return self._ending or self._closed

    def end(self) -> None:
        """End the subscriptions at once, and the response after running queries and mutations were answered.

        Subscriptions get no `complete`, so clients reconnect. Idempotent.
        """
        if self.is_ending:
            return
        self._ending = True
        for operation in list(self._operations.values()):
            if not isinstance(operation.responses, SingleResponseStream):
                self.stop(operation.id)
        self._after(self._limits.close_timeout_seconds, "close", self._check_closing)
        self._after(self._limits.grace_seconds, "grace", self._finish)
        self._wake.set()

    def _check_closing(self) -> None:
        if self._sending_since is not None:
            self._disconnect()

    def _finish(self) -> None:
        self._over = True
        self._wake.set()

    def close(self) -> None:
        """Release everything. Idempotent. Call it if the stream was opened but not run."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for id in list(self._operations):
            self.stop(id)
        self._on_end(self)

    def _disconnect(self) -> None:
        self._gone = True
        if self._abort is not None:
            self._abort()
        # Stop sending, also if the server cannot drop the connection at once.
        if not self._closed:
            self._interrupt.reschedule(self._loop.time())

    def _expire(self) -> None:
        caller = self.caller
        if caller is None:
            return
        remaining = caller.expires_at - self._clock()
        if remaining <= 0:
            self.end()
        else:
            self._after(min(remaining, _EXPIRY_RECHECK_SECONDS), "expiry", self._expire)

    # The response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response until its end."""
        self._abort = scope.get("extensions", {}).get(ABORT_EXTENSION)
        disconnect_task = asyncio.create_task(self._await_disconnect(receive))
        try:
            async with self._interrupt:
                await self._respond(send)
        except (TimeoutError, OSError):
            # Disconnected by this stream, or by the client: some servers signal that with an OSError.
            pass
        finally:
            disconnect_task.cancel()
            self.close()

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = self._over = True
        self._wake.set()

    async def _respond(self, send: Send) -> None:
        self._expire()
        headers = [(name.encode(), value.encode()) for name, value in STREAM_HEADERS.items()]
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": headers})
        chunk = COMMENT
        self._after(self._limits.keep_alive_seconds, "keep_alive", self._keep_alive)
        while not self._over:
            if chunk:
                await self._send(send, {"type": "http.response.body", "body": chunk, "more_body": True})
                # Sending does not yield while the socket accepts data. Let other tasks run.
                await asyncio.sleep(0)
            elif not self._operations and (self._ending or not self._persistent):
                break
            else:
                await self._wake.wait()
            self._wake.clear()
            chunk = b"" if self._over else self._next_chunk()
        if self._ending and not self._gone:
            await asyncio.sleep(self._limits.end_delay_seconds)
        if not self._gone:
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, message: Message) -> None:
        self._sending_since = self._loop.time()
        if "send" not in self._timers:
            self._after(self._limits.send_timeout_seconds, "send", self._check_sending)
        try:
            await send(message)
        finally:
            self._sending_since = None
        self._written_at = self._loop.time()

    def _next_chunk(self) -> bytes:
        """Return the next events, taken from each operation in turn, up to the size of a chunk."""
        events = []
        size = 0
        while self._ready and size < _CHUNK_BYTES:
            operation = next(iter(self._ready))
            del self._ready[operation]
            event = self._next_event(operation)
            if event is not None:
                events.append(event)
                size += len(event)
        if not events and self._comment_due:
            events.append(COMMENT)
        self._comment_due = False
        return b"".join(events)

    def _next_event(self, operation: StreamOperation) -> bytes | None:
        assert operation.responses is not None
        framing = operation.framing
        try:
            response = operation.responses.take()
        except StreamEnded:
            last = b""
        except RequestRefused as refusal:
            last = framing.next(encode({"errors": refusal.errors}))
        except Exception:
            last = framing.next(encode({"errors": [internal_error(operation.request_id)]}))
        else:
            if response is None:
                return None
            self._ready[operation] = None
            return framing.next(response)
        self.stop(operation.id)
        return last + framing.complete

    # Timers

    def _keep_alive(self) -> None:
        remaining = self._written_at + self._limits.keep_alive_seconds - self._loop.time()
        if remaining <= 0:
            self._comment_due = True
            self._wake.set()
            remaining = self._limits.keep_alive_seconds
        self._after(remaining, "keep_alive", self._keep_alive)

    def _check_sending(self) -> None:
        # One timer serves many chunks: a timeout for each would cost more than the chunk.
        del self._timers["send"]
        if self._sending_since is None:
            return
        due = self._sending_since + self._limits.send_timeout_seconds
        if self.queue_budget.behind_since is not None:
            due = min(due, self.queue_budget.behind_since + self._limits.sync_timeout_seconds)
        remaining = due - self._loop.time()
        if remaining > 0:
            self._after(remaining, "send", self._check_sending)
        else:
            self._disconnect()

    def _after(self, seconds: float, name: str, call: Callable[[], None]) -> None:
        previous = self._timers.get(name)
        if previous is not None:
            previous.cancel()
        self._timers[name] = self._loop.call_later(seconds, call)
