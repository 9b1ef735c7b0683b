"""One text/event-stream response: the responses of its operations, as fast as the client takes them."""

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
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.transport.engine import EventStream, RequestRefused, StreamEnded, encode

_CHUNK_BYTES = 65_536
_EXPIRY_RECHECK = 3600.0
"""Seconds after which a far expiry is compared with the clock again: clocks are set now and then."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Bounds on event streams. Times in seconds."""

    max_streams: int = 5_000
    """Streams of a process."""
    max_streams_per_user: int = 100
    """Of those, one user's."""
    max_operations: int = 100
    """Operations at work at the same time on one stream."""
    keep_alive: float = 12.0
    """Silence after which a comment is sent."""
    queue: int = 1_000
    """Events that wait for a client that is behind, over all operations of a stream. One more, and it is told to catch up instead."""
    send_timeout: float = 10.0
    """For the client to make room for what is sent."""
    behind_timeout: float = 30.0
    """For a client that was told to catch up to have done so."""
    close_timeout: float = 2.0
    """For the client to make room for the end."""
    grace: float = 10.0
    """For queries and mutations at work when a stream is ended."""
    silence: float = 0.3
    """Before an end that is not the client's. An operation may have begun just now, and npm graphql-sse waits for ever
    where it hears so only after the end."""
    drain_seconds: float = 5.0
    """Over which many streams are ended when the server stops."""
    drain_batch: int = 100
    """Streams ended at once then, at least."""
    drain_pause: float = 0.2
    """Between two batches, give or take a half."""


class OperationExists(Exception):
    """The id is that of an operation at work."""


class StreamEnding(Exception):
    """The stream begins no more operations."""


class TooManyOperations(Exception):
    """The stream has as many operations at work as it may."""


class StreamOperation:
    """An operation of a stream. `responses` is None while it is being started."""

    def __init__(self, id: str | None, request_id: str) -> None:
        self.id = id
        self.request_id = request_id
        self.framing = Framing.of(id)
        self.responses: EventStream | None = None


class SSEStream:
    """The ASGI application that answers a request with an event stream.

    It holds nothing but the chunk being sent: what the client has not taken waits in the operations' own bounded
    queues. A client that takes nothing for `send_timeout` is cut off. However it ends, its operations are closed.
    """

    def __init__(
        self,
        caller: Caller | None,
        limits: StreamLimits,
        clock: Callable[[], float],
        on_end: Callable[[SSEStream], None],
        *,
        lasting: bool,
    ) -> None:
        """`clock` answers seconds since the epoch. lasting: it goes on when no operation is at work, and does not
        say `complete` but for operations with an id."""
        self.caller = caller
        self.room = QueueBudget(limits.queue)
        """For what its subscriptions have waiting."""
        self._limits = limits
        self._clock = clock
        self._on_end = on_end
        self._lasting = lasting
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

    # --- operations

    def reserve(self, id: str | None, request_id: str = "") -> StreamOperation:
        """Room for an operation that is about to start. Raises OperationExists, TooManyOperations and
        StreamEnding."""
        if self.is_ending:
            raise StreamEnding
        if id in self._operations:
            raise OperationExists
        if len(self._operations) >= self._limits.max_operations:
            raise TooManyOperations(f"An event stream may have {self._limits.max_operations} operations at work.")
        operation = self._operations[id] = StreamOperation(id, request_id)
        return operation

    def attach(self, operation: StreamOperation, responses: EventStream) -> bool:
        """Sends an operation's responses from now on. False where it was stopped, or the stream ended, meanwhile."""
        if self._operations.get(operation.id) is not operation:
            responses.close()
            return False
        operation.responses = responses
        responses.on_ready(lambda: self._mark(operation))
        self._mark(operation)
        return True

    def stop(self, id: str | None) -> None:
        """Ends an operation, without a word; nothing if there is none by that id."""
        operation = self._operations.pop(id, None)
        if operation is not None:
            self._ready.pop(operation, None)
            if operation.responses is not None:
                operation.responses.close()

    def release(self, operation: StreamOperation) -> None:
        """Gives back the room of an operation that did not start."""
        if self._operations.get(operation.id) is operation:
            self.stop(operation.id)

    def _mark(self, operation: StreamOperation) -> None:
        if self._operations.get(operation.id) is operation:
            self._ready[operation] = None
            self._wake.set()

    # --- its end

    @property
    def is_ending(self) -> bool:
        """It begins no more operations."""
        return self._ending or self._closed

    def end(self) -> None:
        """Ends subscriptions at once, and the response soon, without `complete` for them: clients come back. Queries and
        mutations at work are answered first. Idempotent."""
        if self.is_ending:
            return
        self._ending = True
        for operation in list(self._operations.values()):
            if not isinstance(operation.responses, SingleResponseStream):
                self.stop(operation.id)
        self._after(self._limits.close_timeout, "hurry", self._hurry)
        self._after(self._limits.grace, "grace", self._finish)
        self._wake.set()

    def _hurry(self) -> None:
        if self._sending_since is not None:
            self._cut_off()

    def _finish(self) -> None:
        self._over = True
        self._wake.set()

    def close(self) -> None:
        """Lets go of everything. Idempotent. For whoever opened it and does not call it."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for id in list(self._operations):
            self.stop(id)
        self._on_end(self)

    def _cut_off(self) -> None:
        self._gone = True
        if self._abort is not None:
            self._abort()
        # Where the server can't drop the connection, or not at once, the sending is given up all the same.
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
            self._after(min(remaining, _EXPIRY_RECHECK), "expiry", self._expire)

    # --- the response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request, to the end."""
        self._abort = scope.get("extensions", {}).get(ABORT_EXTENSION)
        listening = asyncio.create_task(self._listen(receive))
        try:
            async with self._interrupt:
                await self._respond(send)
        except (TimeoutError, OSError):
            # Cut off, or gone: servers may say the latter by an OSError.
            pass
        finally:
            listening.cancel()
            self.close()

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = self._over = True
        self._wake.set()

    async def _respond(self, send: Send) -> None:
        self._expire()
        headers = [(name.encode(), value.encode()) for name, value in STREAM_HEADERS.items()]
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": headers})
        chunk = COMMENT
        self._after(self._limits.keep_alive, "keep_alive", self._keep_alive)
        while not self._over:
            if chunk:
                await self._send(send, {"type": "http.response.body", "body": chunk, "more_body": True})
                # A socket that takes everything pauses nowhere: give others their turn.
                await asyncio.sleep(0)
            elif not self._operations and (self._ending or not self._lasting):
                break
            else:
                await self._wake.wait()
            self._wake.clear()
            chunk = b"" if self._over else self._gather()
        if self._ending and not self._gone:
            await asyncio.sleep(self._limits.silence)
        if not self._gone:
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, message: Message) -> None:
        self._sending_since = self._loop.time()
        if "send" not in self._timers:
            self._after(self._limits.send_timeout, "send", self._check_sending)
        try:
            await send(message)
        finally:
            self._sending_since = None
        self._written_at = self._loop.time()

    def _gather(self) -> bytes:
        """What there is to send, each operation in turn, up to a chunk."""
        events = []
        size = 0
        while self._ready and size < _CHUNK_BYTES:
            operation = next(iter(self._ready))
            del self._ready[operation]
            event = self._event(operation)
            if event is not None:
                events.append(event)
                size += len(event)
        if not events and self._comment_due:
            events.append(COMMENT)
        self._comment_due = False
        return b"".join(events)

    def _event(self, operation: StreamOperation) -> bytes | None:
        assert operation.responses is not None
        framing = operation.framing
        try:
            response = operation.responses.take()
        except StreamEnded:
            last = b""
        except RequestRefused as refused:
            last = framing.next(encode({"errors": refused.errors}))
        except Exception:
            last = framing.next(encode({"errors": [internal_error(operation.request_id)]}))
        else:
            if response is None:
                return None
            self._ready[operation] = None
            return framing.next(response)
        self.stop(operation.id)
        return last + framing.complete

    # --- timers

    def _keep_alive(self) -> None:
        rest = self._written_at + self._limits.keep_alive - self._loop.time()
        if rest <= 0:
            self._comment_due = True
            self._wake.set()
            rest = self._limits.keep_alive
        self._after(rest, "keep_alive", self._keep_alive)

    def _check_sending(self) -> None:
        # One timer for many chunks: a timeout around each would cost more than the chunk.
        del self._timers["send"]
        if self._sending_since is None:
            return
        due = self._sending_since + self._limits.send_timeout
        if self.room.behind_since is not None:
            due = min(due, self.room.behind_since + self._limits.behind_timeout)
        rest = due - self._loop.time()
        if rest > 0:
            self._after(rest, "send", self._check_sending)
        else:
            self._cut_off()

    def _after(self, seconds: float, name: str, call: Callable[[], None]) -> None:
        before = self._timers.get(name)
        if before is not None:
            before.cancel()
        self._timers[name] = self._loop.call_later(seconds, call)
