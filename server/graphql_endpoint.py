"""GraphQL over HTTP: POST, GET for queries, either as server-sent events for those who ask so, and GraphiQL for browsers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from resolvers.base.errors import ConfabError, Unavailable
from resolvers.users.callers import Caller
from server.auth.authenticator import bearer_token
from server.http.overload_responses import OVERLOAD_ANSWERS
from server.http.request import (
    AcceptPreferences,
    BadRequest,
    MediaType,
    check_method,
    preferences,
    read_parameters,
    request_of,
    stream_token,
)
from server.http.request_log import REQUEST_ID_KEY
from server.http.response import ResponseFormat, internal_error
from server.overload.admission_control import Overloaded
from server.overload.shielded_mutations import ShieldedMutations
from server.sse.requests import StreamRequests
from store.base.errors import StoreError
from subscriptions.transport.engine import ConnectionContext, GraphQLEngine, RequestRefused

log = structlog.get_logger(__name__)

Authenticate = Callable[[str], Awaitable[Caller]]
SignIn = Callable[[Caller], Awaitable[None]]
Page = Callable[[Request], Response]

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")


class GraphQLHTTP:
    """The ASGI application behind /graphql for HTTP.

    Whatever is sent, the answer is a GraphQL response, or a stream of them; a failure of ours is INTERNAL and says no more.
    """

    def __init__(
        self,
        engine: GraphQLEngine,
        authenticate: Authenticate,
        sign_in: SignIn,
        events: StreamRequests,
        mutations: ShieldedMutations,
        *,
        max_body_bytes: int,
        page: Page | None = None,
    ) -> None:
        self._engine = engine
        self._authenticate = authenticate
        self._sign_in = sign_in
        self._events = events
        self._mutations = mutations
        self._max_body_bytes = max_body_bytes
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def drain(self) -> None:
        """Wait for the mutations that are running. They go on where the wait is cancelled."""
        await self._mutations.end()

    async def _respond(self, request: Request) -> ASGIApp:
        accepted = preferences(request.headers.get("accept"))
        if request.method in ("GET", "HEAD") and accepted.prefers_html and self._page is not None:
            return self._page(request)
        if request.method == "HEAD":
            # There would be no end to it.
            accepted = replace(accepted, accepts_events=False, prefers_events=False)
        about_stream = request.method in ("PUT", "DELETE") or stream_token(request) is not None
        form = ResponseFormat.of(accepted.media_type or MediaType.JSON)
        if about_stream or accepted.prefers_events:
            form = replace(form, tells_by_status=True)
        try:
            if not about_stream and not accepted.accepts_events and accepted.media_type is None:
                raise BadRequest(f"Answers come as {' or '.join(MediaType)}.", status=406)
            return await self._answer(request, accepted, form, about_stream=about_stream)
        except BadRequest as bad:
            return form.bad_request(bad)
        except Overloaded:
            # Others were quicker since it came.
            return OVERLOAD_ANSWERS[form.media_type]
        except RequestRefused as refusal:
            return form.result({"errors": refusal.errors})
        except ConfabError as failure:
            return form.failure(failure)
        except StoreError as failure:
            log.warning("database_unreachable", reason=str(failure))
            return form.failure(Unavailable("The service can't answer at the moment, please try again."))
        except ClientDisconnect:
            raise
        except Exception:
            return form.answer({"errors": [internal_error(_id_of(request))]}, 500)

    async def _answer(
        self, request: Request, accepted: AcceptPreferences, form: ResponseFormat, *, about_stream: bool
    ) -> ASGIApp:
        if request.method not in _METHODS:
            allow = ", ".join(_METHODS)
            raise BadRequest("Use POST, or GET for queries.", status=405, headers={"allow": allow})
        caller = await self._caller(request)
        if about_stream:
            if caller is not None:
                await self._sign_in(caller)
            return await self._events.answer(request, caller, form, opens=accepted.prefers_events)
        asked = request_of(await read_parameters(request, self._max_body_bytes))
        context = ConnectionContext(caller, _id_of(request))
        try:
            prepared = self._engine.prepare(asked)
        except RequestRefused as refusal:
            if not accepted.prefers_events or isinstance(refusal, Overloaded):
                raise
            return self._events.tell(refusal, context)
        bind_contextvars(operation=asked.operation_name or prepared.kind)
        check_method(request, prepared.kind)
        as_events = accepted.prefers_events or (prepared.kind == "subscription" and accepted.accepts_events)
        if prepared.kind == "subscription" and not as_events:
            raise BadRequest(
                "Subscriptions are served at this address over WebSocket (graphql-transport-ws), and as server-sent "
                "events to those who accept text/event-stream."
            )
        if caller is not None:
            await self._sign_in(caller)
        if as_events:
            return await self._events.begin(prepared, asked, context)
        return form.result(await self._engine.execute(prepared, asked, context))

    async def _caller(self, request: Request) -> Caller | None:
        token = bearer_token(request.headers.get("authorization"))
        if token is None:
            return None
        caller = await self._authenticate(token)
        bind_contextvars(user=caller.user_id)
        return caller


def _id_of(request: Request) -> str:
    return str(request.scope.get(REQUEST_ID_KEY, ""))
