"""Requests for event streams, and about those that have a token: what each does, and what it is answered."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp
from structlog.contextvars import bind_contextvars

from resolvers.base.errors import NotFound
from resolvers.users.callers import Caller
from server.http.request import (
    BadRequest,
    check_method,
    operation_id_of,
    operation_to_stop,
    read_parameters,
    request_of,
    stream_token,
)
from server.http.request_log import REQUEST_ID_KEY
from server.http.response import HEADERS, ResponseFormat, retry_after
from server.overload.shielded_mutations import ShieldedMutations
from server.sse.operations import begin, refused
from server.sse.single_connection import SingleConnections
from server.sse.stream import SSEStream
from server.sse.stream_registry import SSEStreamRegistry
from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLEngine,
    GraphQLRequest,
    Prepared,
    RequestRefused,
    error,
)


class StreamRequests:
    """Both modes of npm `graphql-sse`. In distinct connections mode an operation is answered by a stream of its own; in single
    connection mode there are requests of four kinds:

    | request                                    | does                             | answers   |
    |--------------------------------------------|----------------------------------|-----------|
    | PUT                                        | reserves a stream                | 201 token |
    | GET, POST with token, accepting events     | opens it, once, within a minute  | 200       |
    | GET, POST with token and an operation's id | starts the operation             | 202       |
    | DELETE with token and an operation's id    | ends it                          | 200       |
    """

    def __init__(
        self,
        engine: GraphQLEngine,
        streams: SSEStreamRegistry,
        single: SingleConnections,
        mutations: ShieldedMutations,
        *,
        max_body_bytes: int,
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._single = single
        self._mutations = mutations
        self._max_body_bytes = max_body_bytes

    # --- distinct connections mode

    async def begin(self, prepared: Prepared, asked: GraphQLRequest, context: ConnectionContext) -> SSEStream:
        """A stream for one operation, which is started once there is room for it. Raises RequestRefused and ConfabError
        where clients should try again."""
        stream = self._streams.open(_caller_of(context))
        try:
            operation = stream.reserve(None, context.request_id)
            context = replace(context, room=stream.room)
            stream.attach(operation, await begin(self._engine, prepared, asked, context, self._mutations))
        except BaseException:
            stream.close()
            raise
        return stream

    def tell(self, refusal: RequestRefused, context: ConnectionContext) -> SSEStream:
        """A stream that says why an operation never began: of any other answer a browser's EventSource shows its page
        nothing."""
        stream = self._streams.open(_caller_of(context))
        stream.attach(stream.reserve(None), refused(refusal.errors))
        return stream

    # --- single connection mode

    async def answer(self, request: Request, caller: Caller | None, form: ResponseFormat, *, opens: bool) -> ASGIApp:
        """The answer to one of them. opens: it accepts events. Raises BadRequest, RequestRefused, ConfabError and StoreError."""
        if caller is None:
            refusal = "An event stream with a token is somebody's: Authorization: Bearer <token>."
            raise RequestRefused([error(refusal, "UNAUTHENTICATED")])
        if request.method == "PUT":
            reserved = await self._single.reserve(caller)
            return Response(reserved, 201, headers=HEADERS, media_type="text/plain")
        token = stream_token(request)
        if token is None:
            raise NotFound("There is no event stream without a token.")
        if request.method == "DELETE":
            outcome = await self._single.stop(token, caller, operation_to_stop(request))
        elif request.method == "HEAD":
            raise BadRequest("Use GET or POST.", status=405, headers={"allow": "GET, POST, PUT, DELETE"})
        elif opens:
            return await self._single.open(token, caller)
        else:
            parameters = await read_parameters(request, self._max_body_bytes)
            asked, operation = request_of(parameters), operation_id_of(parameters)
            prepared = self._engine.prepare(asked)
            bind_contextvars(operation=asked.operation_name or prepared.kind)
            check_method(request, prepared.kind)
            request_id = str(request.scope.get(REQUEST_ID_KEY, ""))
            outcome = await self._single.perform(token, caller, operation, parameters, request_id)
        if "errors" in outcome:
            return form.answer({"errors": outcome["errors"]}, outcome["status"], retry_after(outcome["errors"]))
        return Response(status_code=outcome["status"], headers=HEADERS)


def _caller_of(context: ConnectionContext) -> Caller | None:
    return context.caller if isinstance(context.caller, Caller) else None
