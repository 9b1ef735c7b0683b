"""What a GraphQL request over HTTP asks, and in which form it wants the answer. No engine, no authentication."""

from __future__ import annotations

import asyncio
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

# What orjson would turn into a float, and so into another number.
_LONG_NUMBER = re.compile(rb"\d{19}")
_LONGEST_ID = 256
_USUAL_LENGTH = 256
BODY_SECONDS = 30.0
"""For the body of a request to come, once it has begun."""

_TOO_LARGE = "The body has more than {limit} bytes."


class MediaType(StrEnum):
    """The two forms of answer. GRAPHQL tells a failed request by the status, JSON (older clients) by its body."""

    GRAPHQL = "application/graphql-response+json"
    JSON = "application/json"


EVENT_STREAM = "text/event-stream"

TOKEN_HEADER = "x-graphql-event-stream-token"
"""Which event stream a request is about; the URL's `token` says the same."""


@dataclass(frozen=True, slots=True)
class AcceptPreferences:
    """What an Accept header asks for. `media_type` None: neither of the two will do.

    Server-sent events have to be named to be accepted: clients that take anything don't expect an answer without end.
    They are preferred where nothing else that is named is wanted as much.
    """

    media_type: MediaType | None
    prefers_html: bool = False
    accepts_events: bool = False
    prefers_events: bool = False


_JSON = AcceptPreferences(MediaType.JSON)


class BadRequest(Exception):
    """What came is no GraphQL request that is answered here. INVALID_INPUT to the client."""

    def __init__(
        self, message: str, *, status: int = 400, field: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.field = field
        self.headers = dict(headers or {})


def preferences(accept: str | None) -> AcceptPreferences:
    """Negotiate (RFC 9110, 12.5.1). Without a preference the answer is application/json, as the GraphQL over HTTP
    specification has it for clients that came before it."""
    if accept is None:
        return _JSON
    # The same few headers come again and again; one that is as long as a client likes is nothing to remember.
    return _negotiate(accept) if len(accept) <= _USUAL_LENGTH else _negotiate.__wrapped__(accept)


@lru_cache(maxsize=256)
def _negotiate(accept: str) -> AcceptPreferences:
    if not accept.strip():
        return _JSON
    ranges = _media_ranges(accept)
    graphql = _quality(ranges, "application", "graphql-response+json")
    plain = _quality(ranges, "application", "json")
    named = MediaType.GRAPHQL.value in ranges
    if max(graphql, plain) <= 0:
        media_type = None
    elif graphql > plain or (graphql == plain and named):
        media_type = MediaType.GRAPHQL
    else:
        media_type = MediaType.JSON
    best = max(graphql, plain)
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
    """The parameters of a request: in the body of a POST, else in the URL. What they are is not checked yet.

    Raises BadRequest, having read no more than max_body_bytes and one chunk.
    """
    if request.method == "POST":
        return await _read_body_parameters(request, max_body_bytes)
    return _read_url_parameters(request)


async def _read_body_parameters(request: Request, max_body_bytes: int) -> Json:
    _check_content_type(request)
    body = await _read_body(request, max_body_bytes)
    if not body:
        raise BadRequest("The body is empty: send a JSON object with the query.")
    return _checked(parse_json(body, "The body"))


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
    # Nothing but JSON: what a form on another site can send stays out.
    if media_type != MediaType.JSON.value:
        raise BadRequest("Send the request as Content-Type: application/json.", status=415)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in ("utf-8", "utf8"):
            raise BadRequest("Send the body in UTF-8.", status=415)


async def _read_body(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise BadRequest(_TOO_LARGE.format(limit=limit), status=413)
    body: bytes | bytearray = b""
    late, until = None, 0.0
    while True:
        if late is None:
            message = await request.receive()
        else:
            try:
                async with late:
                    message = await request.receive()
            except TimeoutError:
                raise BadRequest(f"The body did not come within {BODY_SECONDS:g} s.", status=408) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        body = _appended(body, chunk) if body else chunk
        if len(body) > limit:
            raise BadRequest(_TOO_LARGE.format(limit=limit), status=413)
        if not message.get("more_body", False):
            return bytes(body)
        until = until or asyncio.get_running_loop().time() + BODY_SECONDS
        late = asyncio.timeout_at(until)


def _appended(body: bytes | bytearray, chunk: bytes) -> bytearray:
    body = body if isinstance(body, bytearray) else bytearray(body)
    body += chunk
    return body


def parse_json(text: bytes, what: str, field: str | None = None) -> Any:
    """The value of a JSON text, numbers of any length exact. Raises BadRequest."""
    try:
        value = orjson.loads(text)
        return json.loads(text) if _LONG_NUMBER.search(text) else value
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{what} is no JSON that can be read.", field=field) from error


def check_method(request: Request, kind: OperationKind) -> None:
    """Raises BadRequest for a mutation that comes by anything but POST."""
    if kind == "mutation" and request.method != "POST":
        raise BadRequest("Mutations are served by POST only.", status=405, headers={"allow": "POST"})


def stream_token(request: Request) -> str | None:
    """The token of the event stream that the request is about, if it is about one."""
    token = request.headers.get(TOKEN_HEADER)
    if not token and request.scope["query_string"]:
        token = request.query_params.get("token")
    return token or None


def operation_id_of(parameters: Json) -> str:
    """By which id the events of an operation on an event stream are to be told. Raises BadRequest."""
    id = (parameters.get("extensions") or {}).get("operationId")
    return _operation_id(id, "extensions.operationId")


def operation_to_stop(request: Request) -> str:
    """The id of the operation that a DELETE ends. Raises BadRequest."""
    return _operation_id(request.query_params.get("operationId"), "operationId")


def _operation_id(id: object, field: str) -> str:
    if not isinstance(id, str) or not 0 < len(id) <= _LONGEST_ID:
        raise BadRequest(f"{field} should be a string of 1 to {_LONGEST_ID} characters.", field=field)
    return id


def _checked(parameters: Any) -> Json:
    if isinstance(parameters, list):
        raise BadRequest("Batches are not answered: send one JSON object a request.")
    if not isinstance(parameters, dict):
        raise BadRequest("The body should be a JSON object with the query.")
    return parameters


def request_of(parameters: Json) -> GraphQLRequest:
    """The request that the parameters make. Raises BadRequest."""
    try:
        return graphql_request(parameters)
    except InvalidRequest as invalid:
        raise BadRequest(f"{invalid}.", field=invalid.parameter) from None
