"""Parses GraphQL requests over HTTP, and negotiates the media type of the response."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from subscriptions.transport.engine import GraphQLRequest, Json, OperationKind
from subscriptions.transport.graphql_request import InvalidRequest, graphql_request

# orjson would turn such a number into a float and lose digits.
_LONG_NUMBER = re.compile(rb"\d{19}")
_MAX_OPERATION_ID_LENGTH = 256
_MAX_CACHED_ACCEPT_LENGTH = 256

_TOO_LARGE = "The body has more than {limit} bytes."


class MediaType(StrEnum):
    """Media types of responses. GRAPHQL signals failed requests by the status, JSON (older clients) in the body."""

    GRAPHQL = "application/graphql-response+json"
    JSON = "application/json"


EVENT_STREAM = "text/event-stream"

TOKEN_HEADER = "x-graphql-event-stream-token"
"""Header with the token of an event stream. The URL parameter `token` is equivalent."""


@dataclass(frozen=True, slots=True)
class AcceptPreferences:
    """Preferences of an Accept header. `media_type` None means that neither media type is accepted.

    Server-sent events are accepted only if they are named: clients that accept anything do not expect an endless
    response. They are preferred if no other named type has the same quality.
    """

    media_type: MediaType | None
    prefers_html: bool = False
    accepts_events: bool = False
    prefers_events: bool = False


_JSON = AcceptPreferences(MediaType.JSON)


class BadRequest(Exception):
    """Raised for invalid requests over HTTP. Clients get INVALID_INPUT."""

    def __init__(
        self, message: str, *, status: int = 400, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.field = field
        self.headers = dict(headers or {})


def parse_accept(accept: str | None) -> AcceptPreferences:
    """Parse an Accept header (RFC 9110, 12.5.1).

    Without a preference the response is application/json, as GraphQL over HTTP specifies for older clients.
    """
    if accept is None:
        return _JSON
    # Most clients send one of a few short headers. Long headers are not cached, to bound memory.
    return _negotiate(accept) if len(accept) <= _MAX_CACHED_ACCEPT_LENGTH else _negotiate.__wrapped__(accept)


@lru_cache(maxsize=256)
def _negotiate(accept: str) -> AcceptPreferences:
    if not accept.strip():
        return _JSON
    ranges = _media_ranges(accept)
    graphql = _quality(ranges, "application", "graphql-response+json")
    json_quality = _quality(ranges, "application", "json")
    named = MediaType.GRAPHQL.value in ranges
    if max(graphql, json_quality) <= 0:
        media_type = None
    elif graphql > json_quality or (graphql == json_quality and named):
        media_type = MediaType.GRAPHQL
    else:
        media_type = MediaType.JSON
    best = max(graphql, json_quality)
    html = ranges.get("text/html", 0.0)
    events = ranges.get(EVENT_STREAM, 0.0)
    return AcceptPreferences(
        media_type,
        prefers_html=html > 0 and html >= best,
        accepts_events=events > 0,
        prefers_events=events > 0
        and (events > best or (events == best and not named and MediaType.JSON.value not in ranges)),
    )


def _media_ranges(accept: str) -> dict[str, float]:
    ranges: dict[str, float] = {}
    for part in accept.split(","):
        media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        if media_range:
            ranges[media_range] = max(quality, ranges.get(media_range, 0.0))
    return ranges


def _quality(ranges: dict[str, float], kind: str, subtype: str) -> float:
    for media_range in (f"{kind}/{subtype}", f"{kind}/*", "*/*"):
        if media_range in ranges:
            return ranges[media_range]
    return 0.0


async def read_parameters(request: Request, max_body_bytes: int) -> Json:
    """Return the parameters of a request, unchecked: from the body of a POST, else from the URL.

    Reads at most `max_body_bytes` and one chunk. Raises BadRequest.
    """
    if request.method == "POST":
        return await _read_body_parameters(request, max_body_bytes)
    return _read_url_parameters(request)


async def _read_body_parameters(request: Request, max_body_bytes: int) -> Json:
    _check_content_type(request)
    body = await read_body(request, max_body_bytes)
    if not body:
        raise BadRequest("The body is empty: send a JSON object with the query.")
    return _check_parameters(parse_json(body, "The body"))


def _read_url_parameters(request: Request) -> Json:
    parameters: Json = {}
    for name in ("query", "variables", "operationName", "extensions", "documentId", "doc_id"):
        text = request.query_params.get(name)
        if text:
            parsed = name in ("variables", "extensions")
            parameters[name] = parse_json(text.encode(), name, field=name) if parsed else text
    return parameters


def _check_content_type(request: Request) -> None:
    content_type = request.headers.get("content-type", "")
    if content_type != MediaType.JSON.value:
        _check_media_type(content_type)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("Send the body uncompressed.", status=415, headers={"accept-encoding": "identity"})


def _check_media_type(content_type: str) -> None:
    media_type, *parameters = (part.strip().lower() for part in content_type.split(";"))
    # JSON only: HTML forms of other sites cannot send it.
    if media_type != MediaType.JSON.value:
        raise BadRequest("Send the request as Content-Type: application/json.", status=415)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in ("utf-8", "utf8"):
            raise BadRequest("Send the body in UTF-8.", status=415)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the whole body. Raises BadRequest for a body of more than `limit` bytes, and ClientDisconnect."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise BadRequest(_TOO_LARGE.format(limit=limit), status=413)
    body: bytes | bytearray = b""
    while True:
        # The HTTP server limits the time and the rate of the body.
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        body = _append(body, chunk) if body else chunk
        if len(body) > limit:
            raise BadRequest(_TOO_LARGE.format(limit=limit), status=413)
        if not message.get("more_body", False):
            return bytes(body)


def _append(body: bytes | bytearray, chunk: bytes) -> bytearray:
    body = body if isinstance(body, bytearray) else bytearray(body)
    body += chunk
    return body


def parse_json(text: bytes, name: str, field: str | None = None) -> Any:
    """Return the value of a JSON text, with exact numbers of any length. Raises BadRequest with the text's `name`."""
    try:
        value = orjson.loads(text)
        return json.loads(text) if _LONG_NUMBER.search(text) else value
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{name} is not valid JSON.", field=field) from error


def check_method(request: Request, kind: OperationKind) -> None:
    """Raise BadRequest for a mutation that is not sent by POST."""
    if kind == "mutation" and request.method != "POST":
        raise BadRequest("Send mutations by POST.", status=405, headers={"allow": "POST"})


def stream_token(request: Request) -> str | None:
    """Return the token of the event stream that the request names, or None."""
    token = request.headers.get(TOKEN_HEADER)
    if not token and request.scope["query_string"]:
        token = request.query_params.get("token")
    return token or None


def parse_operation_id(parameters: Json) -> str:
    """Return the id that the events of an operation will have on the stream. Raises BadRequest."""
    id = (parameters.get("extensions") or {}).get("operationId")
    return _check_operation_id(id, "extensions.operationId")


def parse_operation_to_stop(request: Request) -> str:
    """Return the id of the operation that a DELETE ends. Raises BadRequest."""
    return _check_operation_id(request.query_params.get("operationId"), "operationId")


def _check_operation_id(id: object, field: str) -> str:
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_OPERATION_ID_LENGTH:
        raise BadRequest(f"{field} should be a string of 1 to {_MAX_OPERATION_ID_LENGTH} characters.", field=field)
    return id


def _check_parameters(parameters: Any) -> Json:
    if isinstance(parameters, list):
        raise BadRequest("Batches are not supported: send one JSON object per request.")
    if not isinstance(parameters, dict):
        raise BadRequest("The body should be a JSON object with the query.")
    return parameters


def parse_graphql_request(parameters: Json) -> GraphQLRequest:
    """Return the GraphQL request with these parameters. Raises BadRequest."""
    try:
        return graphql_request(parameters)
    except InvalidRequest as invalid:
        raise BadRequest(f"{invalid}.", field=invalid.parameter) from None
