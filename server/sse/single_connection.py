"""Single connection mode: one event stream for many operations, which come and go by requests of their own.

The servers behind one address share nothing but Redis, so each request finds out which of them holds its stream, and asks that one over
the bus. A token is an address and no credential: every request says by its own Authorization who asks, and whoever is not
the token's user is told what they would be told of a token that doesn't exist.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import orjson
import structlog

from resolvers.base.errors import A_MOMENT_MS, NotFound
from resolvers.users.callers import Caller, CallerRole
from server.http.request import BadRequest, parse_json, request_of
from server.http.response import internal_error, status_of
from server.overload.shielded_mutations import ShieldedMutations
from server.sse.operations import begin, refused
from server.sse.stream import OperationExists, SSEStream, StreamEnding, TooManyOperations
from server.sse.stream_registry import SSEStreamRegistry
from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.deployment.event_streams import MOST_WAITING, EventStreamStore, QueueOutcome
from subscriptions.realtime.server_calls import ServerCalls
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLEngine,
    Json,
    RequestRefused,
    encode,
    error,
)

log = structlog.get_logger(__name__)

_KEEP_SECONDS = 30.0
_KEPT_AT_ONCE = 500

Outcome = Json
"""What a request about a stream came to: its `status`, and the `errors` where it was refused."""


class SingleConnections:
    """The streams with a token that this server holds, and the way to those of others."""

    def __init__(
        self,
        engine: GraphQLEngine,
        streams: SSEStreamRegistry,
        mutations: ShieldedMutations,
        places: EventStreamStore,
        server: str,
        calls: ServerCalls,
    ) -> None:
        """`server` is this server's name on the bus."""
        self._engine = engine
        self._streams = streams
        self._mutations = mutations
        self._places = places
        self._server = server
        self._calls = calls
        self._most_waiting = min(MOST_WAITING, streams.limits.max_operations)
        self._open: dict[str, SSEStream] = {}
        self._opening: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to answer other servers, and to tell which streams are here."""
        self._calls.answer_with(self._answer)
        self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """To be called when the streams have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._keeping is not None:
            await end_tasks([self._keeping])

    # --- what clients ask

    async def reserve(self, caller: Caller) -> str:
        """A token for a stream that is to be opened within a minute. Raises RateLimited."""
        self._streams.count_reserved(caller)
        token = secrets.token_urlsafe(24)
        await self._places.reserve(token, caller.user_id)
        return token

    async def open(self, token: str, caller: Caller) -> SSEStream:
        """The stream, to be called as an ASGI application. Raises NotFound, BadRequest where it is open already, and
        what SSEStreams.open raises."""
        if not self._is_callers(token, caller):
            place = await self._places.find(token)
            if place is None or place.user != caller.user_id:
                raise _unknown()
        if token in self._open:
            raise _open_already()
        opened = False

        def ended() -> None:
            del self._open[token]
            if opened:
                self._begin(self._forget(token))

        stream = self._streams.open(caller, lasting=True, on_end=ended)
        # Before Redis knows, so that whoever is sent here by it finds the stream.
        self._open[token] = stream
        settled = self._opening[token] = asyncio.Event()
        try:
            waiting = await self._places.open(token, caller.user_id, self._server)
            if waiting is None:
                raise _open_already()
            opened = True
            for asked in waiting:
                self._perform_waiting(stream, orjson.loads(asked))
        except BaseException:
            stream.close()
            raise
        finally:
            del self._opening[token]
            settled.set()
        return stream

    async def perform(self, token: str, caller: Caller, operation: str, parameters: Json, request_id: str) -> Outcome:
        """Starts an operation on a stream: 202, a subscription being attached then. Raises NotFound and StoreError."""
        # As text: what the bus carries is read by a parser that knows no long numbers.
        asked = {"do": "perform", "parameters": encode(parameters).decode(), "request_id": request_id}
        return await self._ask(token, caller, operation, asked)

    async def stop(self, token: str, caller: Caller, operation: str) -> Outcome:
        """Ends an operation, if it is at work: 200. Raises NotFound and StoreError."""
        return await self._ask(token, caller, operation, {"do": "stop"})

    # --- finding the stream

    def _is_callers(self, token: str, caller: Caller) -> bool:
        stream = self._open.get(token)
        return stream is not None and stream.caller is not None and stream.caller.user_id == caller.user_id

    async def _ask(self, token: str, caller: Caller, operation: str, asked: Json) -> Outcome:
        question = {"token": token, "caller": _fields_of(caller), "operation": operation, **asked}
        if token in self._open:
            return await self._answer(question)
        place = await self._places.find(token)
        if place is None or place.user != caller.user_id:
            raise _unknown()
        if place.server is not None:
            return await self._ask_server(place.server, question)
        if asked["do"] == "stop":
            if not await self._places.withdraw(token, operation):
                place = await self._places.find(token)
                if place is not None and place.server is not None:
                    # It was opened meanwhile, with what waited.
                    return await self._ask_server(place.server, question)
            return {"status": 200}
        return await self._let_wait(question)

    async def _ask_server(self, server: str, question: Json) -> Outcome:
        if server == self._server:
            return await self._answer(question)
        return await self._calls.ask(server, question)

    async def _let_wait(self, question: Json) -> Outcome:
        """An operation on a stream that is reserved begins when that is opened."""
        token, operation = question["token"], question["operation"]
        match await self._places.wait(token, operation, orjson.dumps(question), self._most_waiting):
            case QueueOutcome.EXISTS:
                return _operation_exists()
            case QueueOutcome.FULL:
                return _outcome(
                    429, "Open the event stream first.", "RATE_LIMITED", retryable=True, retryAfterMs=A_MOMENT_MS
                )
        place = await self._places.find(token)
        # Opened meanwhile, and perhaps before it could be seen waiting.
        if (place is None or place.server is not None) and await self._places.withdraw(token, operation):
            if place is None or place.server is None:
                raise _unknown()
            return await self._ask_server(place.server, question)
        return {"status": 202}

    # --- on the server that holds it

    async def _answer(self, question: Json) -> Outcome:
        caller = _caller_from(question["caller"])
        token, operation = question["token"], question["operation"]
        if token in self._opening:
            # What waits for it comes first.
            await self._opening[token].wait()
        if not self._is_callers(token, caller):
            return _no_such_stream()
        stream = self._open[token]
        if question["do"] == "stop":
            stream.stop(operation)
            return {"status": 200}
        try:
            reserved = stream.reserve(operation, question["request_id"])
        except StreamEnding:
            return _no_such_stream()
        except OperationExists:
            return _operation_exists()
        except TooManyOperations as many:
            return _outcome(429, str(many), "RATE_LIMITED", retryable=True, retryAfterMs=A_MOMENT_MS)
        try:
            responses = await self._start(question, stream)
        except RequestRefused as refusal:
            stream.release(reserved)
            return {"status": status_of(refusal.errors), "errors": refusal.errors}
        if not stream.attach(reserved, responses) and stream.is_ending:
            return _no_such_stream()
        return {"status": 202}

    def _perform_waiting(self, stream: SSEStream, question: Json) -> None:
        try:
            reserved = stream.reserve(question["operation"], question["request_id"])
        except StreamEnding:
            return

        async def perform() -> None:
            try:
                responses = await self._start(question, stream)
            except RequestRefused as refusal:
                # The request it came by was answered long ago.
                responses = refused(refusal.errors)
            stream.attach(reserved, responses)

        self._begin(perform())

    async def _start(self, question: Json, stream: SSEStream) -> EventStream:
        request_id = question["request_id"]
        try:
            request = request_of(parse_json(question["parameters"].encode(), "The request"))
            context = ConnectionContext(_caller_from(question["caller"]), request_id, room=stream.room)
            return await begin(self._engine, self._engine.prepare(request), request, context, self._mutations)
        except RequestRefused:
            raise
        except Exception:
            raise RequestRefused([internal_error(request_id)]) from None

    # --- what goes on beside

    async def _forget(self, token: str) -> None:
        try:
            await self._places.forget(token)
        except StoreError as failure:
            log.info("event_stream_forgets_itself", reason=str(failure))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_KEEP_SECONDS)
            held = [(token, stream.caller.user_id) for token, stream in self._open.items() if stream.caller is not None]
            try:
                for start in range(0, len(held), _KEPT_AT_ONCE):
                    await self._places.keep(self._server, held[start : start + _KEPT_AT_ONCE])
            except StoreError as failure:
                log.warning("event_streams_not_kept", reason=str(failure))

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _fields_of(caller: Caller) -> Json:
    # What operations look at. Whether the token stays good is asked of the one that the stream was opened with.
    return {name: getattr(caller, name) for name in ("user_id", "role", "expires_at", "name", "picture")}


def _caller_from(fields: Json) -> Caller:
    return Caller(**{**fields, "user_id": UserId(fields["user_id"]), "role": CallerRole(fields["role"])})


def _outcome(status: int, message: str, code: str, **more: Any) -> Outcome:
    return {"status": status, "errors": [error(message, code, **more)]}


def _operation_exists() -> Outcome:
    return _outcome(
        409, "There is an operation of this id on the event stream.", "INVALID_INPUT", field="extensions.operationId"
    )


def _no_such_stream() -> Outcome:
    unknown = _unknown()
    return _outcome(404, unknown.message, unknown.code)


def _unknown() -> NotFound:
    return NotFound("There is no such event stream: it has ended, or was never reserved.")


def _open_already() -> BadRequest:
    return BadRequest("The event stream is open already.", status=409)
