"""Responses to requests over HTTP while the process is overloaded."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from resolvers.base.errors import Unavailable
from server.http.request import MediaType
from server.http.request_log import REQUEST_ID_KEY, client_request_id, new_request_id
from server.http.response import HEADERS, HttpResponse
from server.overload.admission_control import OVERLOADED
from server.overload.load_shedding import LoadShedding
from subscriptions.transport.engine import encode, make_error

_HEADERS = {"retry-after": "1"}
_BODY = encode({"errors": [make_error(OVERLOADED, Unavailable.code, retryable=Unavailable.retryable)]})
OVERLOAD_RESPONSES = {media_type: HttpResponse(media_type, _BODY, 503, _HEADERS) for media_type in MediaType}
"""The response for each media type."""

_GRAPHQL = MediaType.GRAPHQL.value.encode()


REFUSED_PATH = b"/graphql"
"""Path of the requests that the HTTP server may refuse before the application sees them."""

_HEADER_LINES = {
    media_type: (
        f"content-type: {media_type.value}; charset=utf-8\r\ncontent-length: {len(_BODY)}\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in (HEADERS | _HEADERS).items())
    ).encode()
    for media_type in MediaType
}


def raw_overload_response(scope: Scope, default_headers: bytes, *, keep_alive: bool) -> bytes:
    """Return the bytes of a whole overload response. `default_headers` are header lines of the HTTP server."""
    request_id = (client_request_id(scope) or new_request_id()).encode()
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    lines = _HEADER_LINES[_media_type(scope)]
    status = b"HTTP/1.1 503 Service Unavailable\r\n"
    return b"".join((status, default_headers, lines, b"x-request-id: ", request_id, b"\r\n", end, _BODY))


def _media_type(scope: Scope) -> MediaType:
    accepts_graphql = any(name == b"accept" and _GRAPHQL in value for name, value in scope["headers"])
    return MediaType.GRAPHQL if accepts_graphql else MediaType.JSON


class LoadSheddingMiddleware:
    """ASGI middleware that answers 503 while the process is overloaded, without reading body or token.

    Older clients, which otherwise get errors of an operation with status 200, get 503 as well: their request was not
    read.
    """

    def __init__(self, app: ASGIApp, load_shedding: LoadShedding, refusal: ASGIApp | None = None) -> None:
        """Guard an endpoint. `refusal` answers instead of it with 503; None: with an error of GraphQL."""
        self._app = app
        self._load_shedding = load_shedding
        self._refusal = refusal or _refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if self._load_shedding.is_full:
            self._load_shedding.refused.operations += 1
            await self._refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    scope.setdefault(REQUEST_ID_KEY, client_request_id(scope) or new_request_id())
    await OVERLOAD_RESPONSES[_media_type(scope)](scope, receive, send)
