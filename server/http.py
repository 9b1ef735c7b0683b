"""GraphQL over HTTP: POST for everything but subscriptions, GET for queries, and GraphiQL for browsers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from resolvers.callers import Caller
from resolvers.errors import ConfabError, Unauthenticated, Unavailable
from server.auth import bearer_token
from server.http_request import BadRequest, MediaType, preferences, read_get, read_post
from server.request_log import REQUEST_ID_KEY
from store.errors import StoreError
from subscriptions.engine import (
    ConnectionContext,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    Prepared,
    RequestRefused,
    encode,
    error,
)

log = structlog.get_logger(__name__)

Authenticate = Callable[[str], Awaitable[Caller]]
SignIn = Callable[[Caller], Awaitable[None]]
Page = Callable[[Request], Response]

STATUS = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "RATE_LIMITED": 429,
    "UNAVAILABLE": 503,
    "INTERNAL": 500,
}
"""The status of a request that failed with a code before anything ran; 400 with any other."""

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "vary": "accept, authorization"}


class GraphQLHTTP:
    """The ASGI application behind /graphql for HTTP.

    Whatever is sent, the answer is a GraphQL response; a failure of ours is INTERNAL and says no more. A mutation
    that has begun runs to its end, also when the client has gone.
    """

    def __init__(
        self,
        engine: GraphQLEngine,
        authenticate: Authenticate,
        sign_in: SignIn,
        *,
        max_body_bytes: int,
        page: Page | None = None,
    ) -> None:
        self._engine = engine
        self._authenticate = authenticate
        self._sign_in = sign_in
        self._max_body_bytes = max_body_bytes
        self._page = page
        self._mutations: set[asyncio.Task[Json]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def drain(self) -> None:
        """Wait for the mutations that are running. They go on where the wait is cancelled."""
        if self._mutations:
            await asyncio.wait(self._mutations)

    async def _respond(self, request: Request) -> Response:
        accepted = preferences(request.headers.get("accept"))
        if request.method in ("GET", "HEAD") and accepted.prefers_html and self._page is not None:
            return self._page(request)
        media_type = accepted.media_type or MediaType.JSON
        try:
            if accepted.media_type is None:
                raise BadRequest(f"Answers come as {' or '.join(MediaType)}.", status=406)
            return await self._answer(request, media_type)
        except BadRequest as bad:
            errors = [error(bad.message, "INVALID_INPUT", field=bad.field)]
            return _response({"errors": errors}, bad.status, media_type, bad.headers)
        except RequestRefused as refused:
            return _result({"errors": refused.errors}, media_type)
        except ConfabError as failure:
            return _failure(failure, media_type)
        except StoreError as failure:
            log.warning("database_unreachable", reason=str(failure))
            return _failure(Unavailable("The service can't answer at the moment, please try again."), media_type)
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("request_failed")
            message = "Something went wrong on our side. It is in our log under the correlationId."
            errors = [error(message, "INTERNAL", correlationId=request.scope.get(REQUEST_ID_KEY))]
            return _response({"errors": errors}, 500, media_type)

    async def _answer(self, request: Request, media_type: MediaType) -> Response:
        if request.method not in ("GET", "HEAD", "POST"):
            raise BadRequest("Use POST, or GET for queries.", status=405, headers={"allow": "GET, POST"})
        caller = await self._caller(request)
        if request.method == "POST":
            asked = await read_post(request, self._max_body_bytes)
        else:
            asked = read_get(request)
        prepared = self._engine.prepare(asked)
        bind_contextvars(operation=asked.operation_name or prepared.kind)
        if prepared.kind == "subscription":
            raise BadRequest("Subscriptions are served over WebSocket (graphql-transport-ws) at this address.")
        if prepared.kind == "mutation" and request.method != "POST":
            raise BadRequest("Mutations are served by POST only.", status=405, headers={"allow": "POST"})
        if caller is not None:
            await self._sign_in(caller)
        context = ConnectionContext(caller, str(request.scope.get(REQUEST_ID_KEY, "")))
        return _result(await self._execute(prepared, asked, context), media_type)

    async def _caller(self, request: Request) -> Caller | None:
        token = bearer_token(request.headers.get("authorization"))
        if token is None:
            return None
        caller = await self._authenticate(token)
        bind_contextvars(user=caller.user_id)
        return caller

    async def _execute(self, prepared: Prepared, asked: GraphQLRequest, context: ConnectionContext) -> Json:
        if prepared.kind != "mutation":
            return await self._engine.execute(prepared, asked, context)
        task = asyncio.create_task(self._engine.execute(prepared, asked, context))
        self._mutations.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Json]) -> None:
        self._mutations.discard(task)
        if not task.cancelled():
            task.exception()  # Where nobody waits any more, it counts as seen.


def _failure(failure: ConfabError, media_type: MediaType) -> Response:
    errors = [error(failure.message, failure.code, retryable=failure.retryable, field=failure.field)]
    headers = {}
    status = STATUS.get(failure.code, 400)
    if isinstance(failure, Unauthenticated):
        headers["www-authenticate"] = (
            f'Bearer realm="confab", error="invalid_token", error_description="{failure.message}"'
        )
    elif media_type is MediaType.JSON:
        status = 200
    return _response({"errors": errors}, status, media_type, headers)


def _result(result: Json, media_type: MediaType) -> Response:
    codes: set[Any] = {(each.get("extensions") or {}).get("code") for each in result.get("errors", ())}
    if codes == {"UNAUTHENTICATED"} and not any((result.get("data") or {}).values()):
        return _response(result, 401, media_type, {"www-authenticate": 'Bearer realm="confab"'})
    if "data" in result or media_type is MediaType.JSON:
        return _response(result, 200, media_type)
    return _response(result, max((STATUS.get(code, 400) for code in codes), default=500), media_type)


def _response(body: Json, status: int, media_type: MediaType, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        encode(body),
        status,
        headers={**_HEADERS, **(headers or {})},
        media_type=f"{media_type.value}; charset=utf-8",
    )
