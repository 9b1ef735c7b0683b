"""HTTP requests that open event streams, and requests about a stream with a token."""

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
    parse_graphql_request,
    parse_operation_id,
    parse_operation_to_stop,
    read_parameters,
    stream_token,
)
from server.http.request_log import REQUEST_ID_KEY
from server.http.response import HEADERS, ResponseFormat, retry_after
from server.overload.shielded_mutations import ShieldedMutations
from server.sse.operations import error_stream, start_operation
from server.sse.single_connection import SingleConnections
from server.sse.stream import SSEStream
from server.sse.stream_registry import SSEStreamRegistry
from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLEngine,
    GraphQLRequest,
    OperationHandle,
    RequestRefused,
    make_error,
)


class StreamRequests:
    """Handles both modes of npm `graphql-sse`.

    In distinct connections mode each operation has its own stream. In single connection mode there are four requests:

    | request                                   | effect                                 | response  |
    |-------------------------------------------|----------------------------------------|-----------|
    | PUT                                       | reserves a stream                      | 201 token |
    | GET, POST with token, accepting events    | opens the stream, once, in one minute  | 200       |
    | GET, POST with token and operation id     | starts the operation                   | 202       |
    | DELETE with token and operation id        | ends the operation                     | 200       |
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

    # Distinct connections mode

    async def open_stream(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> SSEStream:
        """Start an operation, and return its stream. Raises RequestRefused and ConfabError if clients should retry."""
        stream = self._streams.open(_get_caller(context), is_device=prepared.kind == "subscription")
        try:
            operation = stream.reserve(None, context.request_id)
            context = replace(context, queue_budget=stream.queue_budget)
            responses = await start_operation(self._engine, prepared, request, context, self._mutations)
            stream.attach(operation, responses)
        except BaseException:
            stream.close()
            raise
        return stream

    def open_error_stream(self, refusal: RequestRefused, context: ConnectionContext) -> SSEStream:
        """Return a stream with the errors of a refused operation.

        A browser's EventSource hides every other response from the page.
        """
        stream = self._streams.open(_get_caller(context))
        stream.attach(stream.reserve(None), error_stream(refusal.errors))
        return stream

    # Single connection mode

    async def handle(
        self, request: Request, caller: Caller | None, response_format: ResponseFormat, *, opens_stream: bool
    ) -> ASGIApp:
        """Return the response to a request about a stream.

        `opens_stream` says that the request accepts events. Raises BadRequest, RequestRefused, ConfabError, StoreError.
        """
        if caller is None:
            refusal = "Event streams with a token need authentication. Send Authorization: Bearer <token>."
            raise RequestRefused([make_error(refusal, "UNAUTHENTICATED")])
        if request.method == "PUT":
            reserved = await self._single.reserve(caller)
            return Response(reserved, 201, headers=HEADERS, media_type="text/plain")
        token = stream_token(request)
        if token is None:
            raise NotFound("Name the event stream by its token.")
        if request.method == "DELETE":
            outcome = await self._single.stop_operation(token, caller, parse_operation_to_stop(request))
        elif request.method == "HEAD":
            raise BadRequest("Use GET or POST.", status=405, headers={"allow": "GET, POST, PUT, DELETE"})
        elif opens_stream:
            return await self._single.open(token, caller)
        else:
            parameters = await read_parameters(request, self._max_body_bytes)
            graphql_request, operation = parse_graphql_request(parameters), parse_operation_id(parameters)
            prepared = await self._engine.prepare(graphql_request, caller)
            bind_contextvars(operation=graphql_request.operation_name or prepared.kind)
            check_method(request, prepared.kind)
            request_id = str(request.scope.get(REQUEST_ID_KEY, ""))
            outcome = await self._single.start_operation(token, caller, operation, parameters, request_id)
        if "errors" in outcome:
            return response_format.respond(
                {"errors": outcome["errors"]}, outcome["status"], retry_after(outcome["errors"])
            )
        return Response(status_code=outcome["status"], headers=HEADERS)


def _get_caller(context: ConnectionContext) -> Caller | None:
    return context.caller if isinstance(context.caller, Caller) else None
