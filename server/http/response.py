"""Answers over HTTP: which form a GraphQL response takes, and which status."""

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
from subscriptions.transport.engine import Json, encode, error

log = structlog.get_logger(__name__)

STATUS = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "RATE_LIMITED": 429,
    "UNAVAILABLE": 503,
    "INTERNAL": 500,
}
"""The status of a request that failed with a code before anything ran; 400 with any other."""

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "vary": "accept, authorization"}


DIRECT_KEY = "confab.direct"
"""Set in the ASGI scope where nobody between the endpoint and the server has a say in what is answered."""


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


_CONTENT_TYPES = {media_type: f"{media_type.value}; charset=utf-8" for media_type in MediaType}
_USUAL_LINES = {
    media_type: _lines({**HEADERS, "content-type": content_type}) for media_type, content_type in _CONTENT_TYPES.items()
}


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An ASGI application that gives one answer."""

    media_type: MediaType
    body: bytes
    status: int
    headers: Mapping[str, str] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not (scope.get(DIRECT_KEY) and self._answer_directly(scope)):
            headers = {**HEADERS, **(self.headers or {})}
            response = Response(self.body, self.status, headers, _CONTENT_TYPES[self.media_type])
            await response(scope, receive, send)

    def _answer_directly(self, scope: Scope) -> bool:
        answer: SendResponse | None = scope.get("extensions", {}).get(DIRECT_RESPONSE_EXTENSION)
        if answer is None or scope["method"] == "HEAD":
            return False
        more = f"content-length: {len(self.body)}\r\n{REQUEST_ID_HEADER}: {scope[REQUEST_ID_KEY]}\r\n"
        lines = more.encode("latin-1") + (_lines(self.headers) if self.headers else b"")
        if not answer(self.status, _USUAL_LINES[self.media_type] + lines, self.body):
            return False
        scope[STATUS_KEY] = self.status
        return True


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """How an answer is told. tells_by_status: a request that failed before anything ran has a status of its own; older
    clients, who asked for application/json, get 200 all the same."""

    media_type: MediaType
    tells_by_status: bool

    @classmethod
    def of(cls, media_type: MediaType) -> ResponseFormat:
        """The form that the media type implies."""
        return cls(media_type, media_type is MediaType.GRAPHQL)

    def answer(self, body: Json, status: int, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """A GraphQL response with just this status."""
        return HttpResponse(self.media_type, encode(body), status, headers)

    def result(self, result: Json) -> HttpResponse:
        """What an operation came to."""
        if "errors" not in result:
            return self.answer(result, 200)
        codes = _codes(result.get("errors", ()))
        later = retry_after(result["errors"])
        if codes == {"UNAUTHENTICATED"} and not any((result.get("data") or {}).values()):
            return self.answer(result, 401, {"www-authenticate": 'Bearer realm="confab"'})
        if codes == {"RATE_LIMITED"} and self.tells_by_status and not any((result.get("data") or {}).values()):
            return self.answer(result, 429, later)
        if "data" in result or not self.tells_by_status:
            return self.answer(result, 200, later)
        return self.answer(result, status_of(result["errors"]), later)

    def failure(self, failure: ConfabError) -> HttpResponse:
        """Why nothing ran."""
        more = {"field": failure.field, "retryAfterMs": failure.retry_after_ms}
        errors = [error(failure.message, failure.code, retryable=failure.retryable, **more)]
        if isinstance(failure, Unauthenticated):
            challenge = f'Bearer realm="confab", error="invalid_token", error_description="{failure.message}"'
            return self.answer({"errors": errors}, 401, {"www-authenticate": challenge})
        return self.answer({"errors": errors}, status_of(errors) if self.tells_by_status else 200, retry_after(errors))

    def bad_request(self, bad: BadRequest) -> HttpResponse:
        """What was wrong with the request."""
        return self.answer({"errors": [error(bad.message, "INVALID_INPUT", field=bad.field)]}, bad.status, bad.headers)


def status_of(errors: list[Json]) -> int:
    """The status of a request that came to these errors and nothing else."""
    return max((STATUS.get(code, 400) for code in _codes(errors)), default=500)


def is_worth_another_try(errors: list[Json]) -> bool:
    """Whether clients of an event stream should come back, as they do after these statuses. An error that is told as an
    event is the operation's last word."""
    return status_of(errors) in (401, 429, 503)


def retry_after(errors: list[Json]) -> dict[str, str] | None:
    """When to come back, in whole seconds, where an error says so."""
    waits = [(each.get("extensions") or {}).get("retryAfterMs") for each in errors]
    longest = max((wait for wait in waits if wait is not None), default=None)
    return {"retry-after": str(math.ceil(longest / 1000))} if longest is not None else None


def _codes(errors: list[Json] | tuple[()]) -> set[Any]:
    return {(each.get("extensions") or {}).get("code") for each in errors}


def internal_error(request_id: str) -> Json:
    """What a client is told of the exception being handled: nothing but an id that finds it in the log."""
    log.exception("request_failed", correlation_id=request_id)
    message = "Something went wrong on our side. It is in our log under the correlationId."
    return error(message, "INTERNAL", correlationId=request_id)
