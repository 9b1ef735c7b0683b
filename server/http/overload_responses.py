"""What a request over HTTP is answered that comes while the process has too much to do."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from resolvers.base.errors import Unavailable
from server.http.request import MediaType
from server.http.request_log import REQUEST_ID_KEY, new_request_id, offered_id
from server.http.response import HEADERS, HttpResponse
from server.overload.admission_control import OVERLOADED
from server.overload.load_shedding import LoadShedding
from subscriptions.transport.engine import encode, error

_HEADERS = {"retry-after": "1"}
_BODY = encode({"errors": [error(OVERLOADED, Unavailable.code, retryable=Unavailable.retryable)]})
OVERLOAD_ANSWERS = {media_type: HttpResponse(media_type, _BODY, 503, _HEADERS) for media_type in MediaType}
"""The one answer, in either form."""

_GRAPHQL = MediaType.GRAPHQL.value.encode()


REFUSED_PATH = b"/graphql"
"""Requests for which the server may refuse by itself."""

_LINES = {
    media_type: (
        f"content-type: {media_type.value}; charset=utf-8\r\ncontent-length: {len(_BODY)}\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in (HEADERS | _HEADERS).items())
    ).encode()
    for media_type in MediaType
}


def refusal(scope: Scope, defaults: bytes, *, stays: bool) -> bytes:
    """The same answer as the bytes of a whole response. defaults: header lines of the server's own."""
    request_id = (offered_id(scope) or new_request_id()).encode()
    end = b"\r\n" if stays else b"connection: close\r\n\r\n"
    lines = _LINES[_media_type(scope)]
    return b"".join(
        (b"HTTP/1.1 503 Service Unavailable\r\n", defaults, lines, b"x-request-id: ", request_id, b"\r\n", end, _BODY)
    )


def _media_type(scope: Scope) -> MediaType:
    accepts_graphql = any(name == b"accept" and _GRAPHQL in value for name, value in scope["headers"])
    return MediaType.GRAPHQL if accepts_graphql else MediaType.JSON


class LoadSheddingMiddleware:
    """An ASGI application before another: 503 to requests that are too many, also to those older clients who get 200 for the
    errors of an operation: nobody has looked at theirs. Neither is the body read, nor the token judged."""

    def __init__(self, app: ASGIApp, shedding: LoadShedding) -> None:
        self._app = app
        self._shedding = shedding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._shedding.is_full:
            self._shedding.shed.operations += 1
            await _refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    scope.setdefault(REQUEST_ID_KEY, offered_id(scope) or new_request_id())
    await OVERLOAD_ANSWERS[_media_type(scope)](scope, receive, send)
