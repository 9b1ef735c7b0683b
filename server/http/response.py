"""GraphQL responses over HTTP: body, status and headers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from resolvers.base.errors import ConfabError, Unauthenticated
from server.http.request import BadRequest, MediaType
from server.http.request_log import REQUEST_ID_HEADER, REQUEST_ID_KEY, STATUS_KEY
from server.http.uvicorn_protocol import DIRECT_RESPONSE_EXTENSION, SendResponse
from subscriptions.transport.engine import Json, encode, make_error

log = structlog.get_logger(__name__)

STATUS = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "BANNED": 403,
    "NOT_FOUND": 404,
    "TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "UNAVAILABLE": 503,
    "INTERNAL": 500,
}
"""Status by error code, for requests that failed before anything ran. 400 for other codes."""

HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "vary": "accept, authorization, confab-act-as",
}


DIRECT_KEY = "confab.direct"
"""Set in the ASGI scope if no middleware changes the response: it may bypass ASGI messages."""


def _header_lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


_CONTENT_TYPES = {media_type: f"{media_type.value}; charset=utf-8" for media_type in MediaType}
_DEFAULT_LINES = {
    media_type: _header_lines({**HEADERS, "content-type": content_type})
    for media_type, content_type in _CONTENT_TYPES.items()
}


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """ASGI application that sends one response."""

    media_type: MediaType
    body: bytes
    status: int
    headers: Mapping[str, str] | None

    def with_headers(self, headers: Mapping[str, str]) -> HttpResponse:
        """Return the response with further headers."""
        merged = {**headers, **(self.headers or {})}
        return HttpResponse(self.media_type, self.body, self.status, merged)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        if not (scope.get(DIRECT_KEY) and self._send_directly(scope)):
            headers = {**HEADERS, **(self.headers or {})}
            response = Response(self.body, self.status, headers, _CONTENT_TYPES[self.media_type])
            await response(scope, receive, send)

    def _send_directly(self, scope: Scope) -> bool:
        send_response: SendResponse | None = scope.get("extensions", {}).get(DIRECT_RESPONSE_EXTENSION)
        if send_response is None or scope["method"] == "HEAD":
            return False
        own_lines = f"content-length: {len(self.body)}\r\n{REQUEST_ID_HEADER}: {scope[REQUEST_ID_KEY]}\r\n"
        lines = own_lines.encode("latin-1") + (_header_lines(self.headers) if self.headers else b"")
        if not send_response(self.status, _DEFAULT_LINES[self.media_type] + lines, self.body):
            return False
        scope[STATUS_KEY] = self.status
        return True


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """Format of responses to one request.

    With `uses_status`, a request that failed before anything ran gets an error status. Older clients, which accept
    application/json only, get 200.
    """

    media_type: MediaType
    uses_status: bool

    @classmethod
    def of(cls, media_type: MediaType) -> ResponseFormat:
        """Return the format that the media type implies."""
        return cls(media_type, media_type is MediaType.GRAPHQL)

    def respond(self, body: Json, status: int, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """Return a response with this status."""
        return HttpResponse(self.media_type, encode(body), status, headers)

    def result(self, result: Json) -> HttpResponse:
        """Return the response to an operation."""
        if "errors" not in result:
            return self.respond(result, 200)
        codes = _codes(result.get("errors", ()))
        retry_headers = retry_after(result["errors"])
        if codes == {"UNAUTHENTICATED"} and not any((result.get("data") or {}).values()):
            return self.respond(result, 401, {"www-authenticate": 'Bearer realm="confab"'})
        if codes == {"RATE_LIMITED"} and self.uses_status and not any((result.get("data") or {}).values()):
            return self.respond(result, 429, retry_headers)
        if "data" in result or not self.uses_status:
            return self.respond(result, 200, retry_headers)
        return self.respond(result, status_of(result["errors"]), retry_headers)

    def failure(self, failure: ConfabError) -> HttpResponse:
        """Return the response to a request that failed before its operation ran."""
        extensions = {"field": failure.field, "retryAfterMs": failure.retry_after_ms}
        errors = [make_error(failure.message, failure.code, retryable=failure.retryable, **extensions)]
        if isinstance(failure, Unauthenticated):
            challenge = f'Bearer realm="confab", error="invalid_token", error_description="{failure.message}"'
            return self.respond({"errors": errors}, 401, {"www-authenticate": challenge})
        return self.respond({"errors": errors}, status_of(errors) if self.uses_status else 200, retry_after(errors))

    def bad_request(self, bad: BadRequest) -> HttpResponse:
        """Return the response to an invalid request."""
        return self.respond(
            {"errors": [make_error(bad.message, "INVALID_INPUT", field=bad.field)]}, bad.status, bad.headers
        )


def status_of(errors: list[Json]) -> int:
    """Return the status of a request that failed with these errors only."""
    return max((STATUS.get(code, 400) for code in _codes(errors)), default=500)


def should_retry(errors: list[Json]) -> bool:
    """Return whether clients of an event stream should retry.

    They do so after an error status, but treat an error in an event as the end of the operation.
    """
    return status_of(errors) in (401, 429, 503)


def retry_after(errors: list[Json]) -> dict[str, str] | None:
    """Return a retry-after header in whole seconds, if an error has a retryAfterMs."""
    waits = [(each.get("extensions") or {}).get("retryAfterMs") for each in errors]
    longest = max((wait for wait in waits if wait is not None), default=None)
    return {"retry-after": str(math.ceil(longest / 1000))} if longest is not None else None


def _codes(errors: list[Json] | tuple[()]) -> set[Any]:
    return {(each.get("extensions") or {}).get("code") for each in errors}


def internal_error(request_id: str) -> Json:
    """Log the exception being handled, and return an INTERNAL error that contains only the id of the log line."""
    log.exception("request_failed", correlation_id=request_id)
    message = "The server failed. Report the correlationId: it identifies the failure in the server's log."
    return make_error(message, "INTERNAL", correlationId=request_id)
