"""The endpoint /graphql for HTTP: POST, GET for queries, event streams on request, and GraphiQL for browsers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from resolvers.base.errors import ConfabError, Unauthenticated, Unavailable
from resolvers.users.callers import Caller, act_as
from server.auth.acting import ACT_AS_HEADER, parse_act_as_header
from server.auth.authenticator import bearer_token
from server.http.client_limits import USER_KEY
from server.http.overload_responses import OVERLOAD_RESPONSES
from server.http.rate_limit_headers import RateLimitHeaders
from server.http.request import (
    AcceptPreferences,
    BadRequest,
    MediaType,
    check_method,
    parse_accept,
    parse_graphql_request,
    read_parameters,
    stream_token,
)
from server.http.request_log import REQUEST_ID_KEY
from server.http.response import HttpResponse, ResponseFormat, internal_error
from server.overload.admission_control import Overloaded
from server.overload.shielded_mutations import ShieldedMutations
from server.sse.requests import StreamRequests
from store.base.errors import StoreError
from subscriptions.realtime.unsent_answers import LARGE_BYTES, UnsentAnswers
from subscriptions.transport.engine import AnswerRefused, ConnectionContext, GraphQLEngine, RequestRefused

log = structlog.get_logger(__name__)

Authenticate = Callable[[str], Awaitable[Caller]]
SignIn = Callable[[Caller], Awaitable[None]]
Page = Callable[[Request], Response]

_USER_KEY = "confab.user"
"""Set in the ASGI scope to the user of a request with an operation."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


class GraphQLEndpoint:
    """ASGI application for requests to /graphql.

    Every request gets a GraphQL response, or a stream of them. Failures of the server are answered with INTERNAL,
    without details.
    """

    def __init__(
        self,
        engine: GraphQLEngine,
        authenticate: Authenticate,
        sign_in: SignIn,
        stream_requests: StreamRequests,
        mutations: ShieldedMutations,
        *,
        max_body_bytes: int,
        unsent: UnsentAnswers | None = None,
        page: Page | None = None,
        rate_limit: RateLimitHeaders | None = None,
        check: Callable[[Caller], None] = lambda caller: None,
    ) -> None:
        """Create the endpoint. `unsent` bounds the answers that wait; `page` returns the page for browsers.

        check: Raises ConfabError for a caller whose token is no longer valid, or who is banned.
        """
        self._engine = engine
        self._authenticate = authenticate
        self._sign_in = sign_in
        self._stream_requests = stream_requests
        self._mutations = mutations
        self._max_body_bytes = max_body_bytes
        self._unsent = unsent or UnsentAnswers()
        self._page = page
        self._rate_limit = rate_limit
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except ClientDisconnect:
            return
        user = scope.get(_USER_KEY)
        if user is not None and self._rate_limit is not None and isinstance(response, HttpResponse):
            response = response.with_headers(self._rate_limit.of(user))
        await response(scope, receive, send)

    async def drain(self) -> None:
        """Wait for running mutations. They continue if the wait is cancelled."""
        await self._mutations.wait()

    async def _respond(self, request: Request) -> ASGIApp:
        accept = parse_accept(request.headers.get("accept"))
        if request.method in ("GET", "HEAD") and accept.prefers_html and self._page is not None:
            return self._page(request)
        if request.method == "HEAD":
            # An event stream would not end.
            accept = replace(accept, accepts_events=False, prefers_events=False)
        has_token = request.method in ("PUT", "DELETE") or stream_token(request) is not None
        response_format = ResponseFormat.of(accept.media_type or MediaType.JSON)
        if has_token or accept.prefers_events:
            response_format = replace(response_format, uses_status=True)
        try:
            if not has_token and not accept.accepts_events and accept.media_type is None:
                raise BadRequest(f"Accept {' or '.join(MediaType)}.", status=406)
            return await self._handle(request, accept, response_format, has_token=has_token)
        except BadRequest as bad:
            return response_format.bad_request(bad)
        except Overloaded:
            # The process became overloaded after the request had arrived.
            return OVERLOAD_RESPONSES[response_format.media_type]
        except RequestRefused as refusal:
            return response_format.result({"errors": refusal.errors})
        except ConfabError as failure:
            return response_format.failure(failure)
        except StoreError as failure:
            log.warning("database_unreachable", reason=str(failure))
            return response_format.failure(Unavailable("The service is unavailable at the moment, please try again."))
        except ClientDisconnect:
            raise
        except Exception:
            return response_format.respond({"errors": [internal_error(_request_id(request))]}, 500)

    async def _handle(
        self, request: Request, accept: AcceptPreferences, response_format: ResponseFormat, *, has_token: bool
    ) -> ASGIApp:
        if request.method not in _METHODS:
            allow = ", ".join(_METHODS)
            raise BadRequest("Use POST, or GET for queries.", status=405, headers={"allow": allow})
        caller = await self._get_caller(request)
        if caller is not None:
            request.scope[USER_KEY] = caller.user_id
        if has_token:
            if caller is not None:
                await self._sign_in(caller)
            return await self._stream_requests.handle(
                request, caller, response_format, opens_stream=accept.prefers_events
            )
        # Before the body is read: it may be long, or never arrive.
        self._engine.check_caller(caller)
        graphql_request = parse_graphql_request(await read_parameters(request, self._max_body_bytes))
        context = ConnectionContext(caller, _request_id(request))
        try:
            prepared = await self._engine.prepare(graphql_request, caller)
        except RequestRefused as refusal:
            if not accept.prefers_events or isinstance(refusal, Overloaded):
                raise
            return self._stream_requests.open_error_stream(refusal, context)
        if caller is not None:
            request.scope[_USER_KEY] = caller.user_id
        bind_contextvars(operation=graphql_request.operation_name or prepared.kind)
        check_method(request, prepared.kind)
        as_events = accept.prefers_events or (prepared.kind == "subscription" and accept.accepts_events)
        if prepared.kind == "subscription" and not as_events:
            raise BadRequest(
                "Send subscriptions over WebSocket (graphql-transport-ws) to this address, or accept text/event-stream."
            )
        if caller is not None:
            await self._sign_in(caller)
            # The body may have come slowly. A ban or a revocation meanwhile has not waited for this operation.
            self._check(caller)
        if as_events:
            return await self._stream_requests.open_stream(prepared, graphql_request, context)
        response = response_format.result(await self._engine.execute(prepared, graphql_request, context))
        size = len(response.body)
        if size > LARGE_BYTES and not self._unsent.has_room(caller.user_id if caller is not None else None, size):
            raise AnswerRefused
        return response

    async def _get_caller(self, request: Request) -> Caller | None:
        token = bearer_token(request.headers.get("authorization"))
        user = parse_act_as_header(request.headers)
        if token is None:
            if user is not None:
                raise Unauthenticated(f"{ACT_AS_HEADER} needs a token: Authorization: Bearer <token>.")
            return None
        caller = await self._authenticate(token)
        bind_contextvars(user=caller.user_id)
        if user is not None:
            caller = act_as(caller, user, ACT_AS_HEADER)
            if caller.acted_by is not None:
                bind_contextvars(user=caller.user_id, acted_by=caller.acted_by)
                self._check(caller)
        return caller


def _request_id(request: Request) -> str:
    return str(request.scope.get(REQUEST_ID_KEY, ""))
