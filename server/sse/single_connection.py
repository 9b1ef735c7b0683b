"""Single connection mode: one event stream for many operations. Separate requests start and stop the operations.

Servers behind one address share only Redis. So each request looks up the server that has its stream, and forwards the
work to it over the bus. A token is an address, not a credential: each request is authenticated by its own Authorization
header. Other users get the same response as for a token that does not exist.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import orjson
import structlog

from resolvers.base.errors import A_MOMENT_MS, NotFound
from resolvers.users.callers import Caller, CallerRole
from server.http.request import BadRequest, parse_graphql_request, parse_json
from server.http.response import internal_error, status_of
from server.overload.queued_operations import QueuedOperations
from server.overload.shielded_mutations import ShieldedMutations
from server.sse.operations import error_stream, start_operation
from server.sse.stream import OperationExists, SSEStream, StreamEnding, TooManyOperations
from server.sse.stream_registry import SSEStreamRegistry
from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.deployment.event_streams import MAX_QUEUED_OPERATIONS, EventStreamStore, QueueOutcome
from subscriptions.realtime.server_calls import ServerCalls
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLEngine,
    Json,
    RequestRefused,
    encode,
    make_error,
)

log = structlog.get_logger(__name__)

_REFRESH_SECONDS = 30.0
_REFRESH_BATCH = 500

RequestOutcome = Json
"""Result of a request about a stream: its `status`, and `errors` if it was refused."""


class SingleConnections:
    """Streams with a token on this server, and access to those on other servers."""

    def __init__(
        self,
        engine: GraphQLEngine,
        streams: SSEStreamRegistry,
        mutations: ShieldedMutations,
        store: EventStreamStore,
        server: str,
        calls: ServerCalls,
        queued: QueuedOperations,
    ) -> None:
        """Create the object. `server` is this server's name on the bus."""
        self._engine = engine
        self._streams = streams
        self._mutations = mutations
        self._store = store
        self._server = server
        self._calls = calls
        self._queued = queued
        self._max_queued = min(MAX_QUEUED_OPERATIONS, streams.limits.max_operations)
        self._open: dict[str, SSEStream] = {}
        self._opening: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refresh_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to handle calls of other servers, and to renew the entries of open streams in Redis."""
        self._calls.answer_kind("token", self._handle)
        self._refresh_task = asyncio.create_task(self._refresh_forever())

    async def stop(self) -> None:
        """Stop. Call it after all streams have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._refresh_task is not None:
            await end_tasks([self._refresh_task])

    # Requests of clients

    async def reserve(self, caller: Caller) -> str:
        """Return the token of a new stream, which has to be opened within a minute. Raises RateLimited."""
        self._streams.count_reservation(caller)
        token = secrets.token_urlsafe(24)
        await self._store.reserve(token, _owner(caller))
        return token

    async def open(self, token: str, caller: Caller) -> SSEStream:
        """Open a reserved stream, and return it as an ASGI application.

        Raises NotFound, BadRequest if the stream is open already, and the errors of SSEStreamRegistry.open.
        """
        if not self._is_open_for(token, caller):
            location = await self._store.find(token)
            if location is None or location.owner != _owner(caller):
                raise _not_found()
        if token in self._open:
            raise _already_open()
        opened = False

        def on_end() -> None:
            del self._open[token]
            if opened:
                self._run_in_background(self._forget(token))

        stream = self._streams.open(caller, persistent=True, is_device=True, on_end=on_end)
        # Registered before Redis names this server, so that forwarded requests find the stream.
        self._open[token] = stream
        opening = self._opening[token] = asyncio.Event()
        try:
            queued = await self._store.open(token, _owner(caller), self._server)
            if queued is None:
                raise _already_open()
            opened = True
            self._queued.remove_stream(token)
            for call in queued:
                self._start_queued(stream, orjson.loads(call))
        except BaseException:
            stream.close()
            raise
        finally:
            del self._opening[token]
            opening.set()
        return stream

    async def start_operation(
        self, token: str, caller: Caller, operation: str, parameters: Json, request_id: str
    ) -> RequestOutcome:
        """Start an operation on a stream: 202. A subscription then receives events.

        Raises NotFound and StoreError. For a stream that is not open yet it also raises the errors of
        `QueuedOperations.add`.
        """
        # Parameters travel as text: the parser of the bus does not support long numbers.
        command = {"do": "perform", "parameters": encode(parameters).decode(), "request_id": request_id}
        return await self._route(token, caller, operation, command)

    async def stop_operation(self, token: str, caller: Caller, operation: str) -> RequestOutcome:
        """End an operation if it is running: 200. Raises NotFound and StoreError."""
        return await self._route(token, caller, operation, {"do": "stop"})

    # Finding the stream

    def _is_open_for(self, token: str, caller: Caller) -> bool:
        stream = self._open.get(token)
        return stream is not None and stream.caller is not None and _owner(stream.caller) == _owner(caller)

    async def _route(self, token: str, caller: Caller, operation: str, command: Json) -> RequestOutcome:
        call = {"token": token, "caller": _caller_fields(caller), "operation": operation, **command}
        if token in self._open:
            return await self._handle(call)
        location = await self._store.find(token)
        if location is None or location.owner != _owner(caller):
            raise _not_found()
        if location.server is not None:
            self._queued.remove_stream(token)
            return await self._forward(location.server, call)
        if command["do"] == "stop":
            withdrawn = await self._store.withdraw(token, operation)
            self._queued.remove(token, operation)
            if not withdrawn:
                location = await self._store.find(token)
                if location is not None and location.server is not None:
                    # The stream was opened meanwhile, and the queued operation was started.
                    return await self._forward(location.server, call)
            return {"status": 200}
        return await self._enqueue(call)

    async def _forward(self, server: str, call: Json) -> RequestOutcome:
        if server == self._server:
            return await self._handle(call)
        return await self._calls.ask(server, call)

    async def _enqueue(self, call: Json) -> RequestOutcome:
        """Queue an operation on a reserved stream. It starts when the stream is opened."""
        token, operation, request = call["token"], call["operation"], orjson.dumps(call)
        is_new = self._queued.add(UserId(call["caller"]["user_id"]), token, operation, len(request))
        waits = False
        try:
            outcome, waits = await self._try_enqueue(call, request)
            return outcome
        finally:
            if is_new and not waits:
                self._queued.remove(token, operation)

    async def _try_enqueue(self, call: Json, request: bytes) -> tuple[RequestOutcome, bool]:
        """Return the outcome, and whether the operation waits in Redis."""
        token, operation = call["token"], call["operation"]
        match await self._store.enqueue(token, operation, request, self._max_queued):
            case QueueOutcome.EXISTS:
                return _operation_exists(), False
            case QueueOutcome.FULL:
                refusal = _refusal(
                    429, "Open the event stream first.", "RATE_LIMITED", retryable=True, retryAfterMs=A_MOMENT_MS
                )
                return refusal, False
        location = await self._store.find(token)
        # The stream was opened meanwhile, possibly before this operation was in the queue.
        if (location is None or location.server is not None) and await self._store.withdraw(token, operation):
            if location is None or location.server is None:
                raise _not_found()
            return await self._forward(location.server, call), False
        return {"status": 202}, location is not None and location.server is None

    # On the server that has the stream

    async def _handle(self, call: Json) -> RequestOutcome:
        caller = _caller_from(call["caller"])
        token, operation = call["token"], call["operation"]
        if token in self._opening:
            # Queued operations start first.
            await self._opening[token].wait()
        if not self._is_open_for(token, caller):
            return _stream_not_found()
        stream = self._open[token]
        if call["do"] == "stop":
            stream.stop(operation)
            return {"status": 200}
        try:
            reserved = stream.reserve(operation, call["request_id"])
        except StreamEnding:
            return _stream_not_found()
        except OperationExists:
            return _operation_exists()
        except TooManyOperations as error:
            return _refusal(429, str(error), "RATE_LIMITED", retryable=True, retryAfterMs=A_MOMENT_MS)
        try:
            responses = await self._start(call, stream)
        except RequestRefused as refusal:
            stream.release(reserved)
            return {"status": status_of(refusal.errors), "errors": refusal.errors}
        if not stream.attach(reserved, responses) and stream.is_ending:
            return _stream_not_found()
        return {"status": 202}

    def _start_queued(self, stream: SSEStream, call: Json) -> None:
        try:
            reserved = stream.reserve(call["operation"], call["request_id"])
        except StreamEnding:
            return

        async def start() -> None:
            try:
                responses = await self._start(call, stream)
            except RequestRefused as refusal:
                # The request that queued it was answered long ago.
                responses = error_stream(refusal.errors)
            stream.attach(reserved, responses)

        self._run_in_background(start())

    async def _start(self, call: Json, stream: SSEStream) -> EventStream:
        request_id = call["request_id"]
        try:
            request = parse_graphql_request(parse_json(call["parameters"].encode(), "The request"))
            context = ConnectionContext(_caller_from(call["caller"]), request_id, queue_budget=stream.queue_budget)
            prepared = await self._engine.prepare(request, context.caller)
            if prepared.kind == "mutation" and stream.device is not None:
                stream.device.note_use(prepared.root)
            return await start_operation(self._engine, prepared, request, context, self._mutations)
        except RequestRefused:
            raise
        except Exception:
            raise RequestRefused([internal_error(request_id)]) from None

    # Background work

    async def _forget(self, token: str) -> None:
        try:
            await self._store.delete(token)
        except StoreError as failure:
            log.info("event_stream_entry_not_deleted", reason=str(failure))

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            open_streams = [
                (token, _owner(stream.caller)) for token, stream in self._open.items() if stream.caller is not None
            ]
            try:
                for start in range(0, len(open_streams), _REFRESH_BATCH):
                    await self._store.renew(self._server, open_streams[start : start + _REFRESH_BATCH])
            except StoreError as failure:
                log.warning("event_stream_entries_not_renewed", reason=str(failure))

    def _run_in_background(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _owner(caller: Caller) -> str:
    """Return the owner of a caller's streams. A caller who acts for a user does not share that user's streams."""
    return caller.user_id if caller.acted_by is None else f"{caller.user_id} {caller.acted_by}"


def _caller_fields(caller: Caller) -> Json:
    # The fields that operations use. Token validity is checked for the caller that opened the stream.
    fields = {name: getattr(caller, name) for name in ("user_id", "role", "expires_at", "name", "picture")}
    return fields if caller.acted_by is None else fields | {"acted_by": caller.acted_by}


def _caller_from(fields: Json) -> Caller:
    return Caller(**{**fields, "user_id": UserId(fields["user_id"]), "role": CallerRole(fields["role"])})


def _refusal(status: int, message: str, code: str, **extensions: Any) -> RequestOutcome:
    return {"status": status, "errors": [make_error(message, code, **extensions)]}


def _operation_exists() -> RequestOutcome:
    return _refusal(
        409,
        "The event stream has an operation with this id. Choose another id.",
        "INVALID_INPUT",
        field="extensions.operationId",
    )


def _stream_not_found() -> RequestOutcome:
    missing = _not_found()
    return _refusal(404, missing.message, missing.code)


def _not_found() -> NotFound:
    return NotFound("There is no such event stream: it has ended, or was not reserved. Reserve a new one.")


def _already_open() -> BadRequest:
    return BadRequest("The event stream is open already.", status=409)
