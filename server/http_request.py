"""What a GraphQL request over HTTP asks, and in which form it wants the answer. No engine, no authentication."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson
from starlette.requests import Request

from subscriptions.engine import GraphQLRequest

# What orjson would turn into a float, and so into another number.
_LONG_NUMBER = re.compile(rb"\d{19}")
_TOO_LARGE = "The body has more than {limit} bytes."


class MediaType(StrEnum):
    """The two forms of answer. GRAPHQL tells a failed request by the status, JSON (older clients) by its body."""

    GRAPHQL = "application/graphql-response+json"
    JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Preferences:
    """What an Accept header asks for. `media_type` None: neither of the two will do."""

    media_type: MediaType | None
    prefers_html: bool


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


def preferences(accept: str | None) -> Preferences:
    """Negotiate (RFC 9110, 12.5.1). Without a preference the answer is application/json, as the GraphQL over HTTP
    specification has it for clients that came before it."""
    if not accept or not accept.strip():
        return Preferences(MediaType.JSON, prefers_html=False)
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
    html = ranges.get("text/html", 0.0)
    return Preferences(media_type, prefers_html=html > 0 and html >= max(graphql, plain))


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


async def read_post(request: Request, max_body_bytes: int) -> GraphQLRequest:
    """The request in a POST body. Raises BadRequest, having read no more than max_body_bytes and one chunk."""
    _check_content_type(request)
    body = await _read_body(request, max_body_bytes)
    if not body:
        raise BadRequest("The body is empty: send a JSON object with the query.")
    return _request_of(_parse_json(body, "The body"))


def read_get(request: Request) -> GraphQLRequest:
    """The request in a URL: query, variables, operationName and extensions. Raises BadRequest."""
    parameters: dict[str, Any] = {}
    for name in ("query", "variables", "operationName", "extensions"):
        text = request.query_params.get(name)
        if text:
            parsed = name in ("variables", "extensions")
            parameters[name] = _parse_json(text.encode(), name, field=name) if parsed else text
    return _request_of(parameters)


def _check_content_type(request: Request) -> None:
    media_type, *parameters = (part.strip().lower() for part in request.headers.get("content-type", "").split(";"))
    # Nothing but JSON: what a form on another site can send stays out.
    if media_type != MediaType.JSON.value:
        raise BadRequest("Send the request as Content-Type: application/json.", status=415)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in ("utf-8", "utf8"):
            raise BadRequest("Send the body in UTF-8.", status=415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("Send the body uncompressed.", status=415, headers={"accept-encoding": "identity"})


async def _read_body(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise BadRequest(_TOO_LARGE.format(limit=limit), status=413)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise BadRequest(_TOO_LARGE.format(limit=limit), status=413)
    return bytes(body)


def _parse_json(text: bytes, what: str, field: str | None = None) -> Any:
    try:
        value = orjson.loads(text)
        return json.loads(text) if _LONG_NUMBER.search(text) else value
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{what} is no JSON that can be read.", field=field) from error


def _request_of(parameters: Any) -> GraphQLRequest:
    if isinstance(parameters, list):
        raise BadRequest("Batches are not answered: send one JSON object a request.")
    if not isinstance(parameters, dict):
        raise BadRequest("The body should be a JSON object with the query.")
    query = parameters.get("query")
    if not isinstance(query, str):
        raise BadRequest("The query is missing, or no string.", field="query")
    operation_name = parameters.get("operationName")
    if operation_name is not None and not isinstance(operation_name, str):
        raise BadRequest("operationName is no string.", field="operationName")
    for name in ("variables", "extensions"):
        if not isinstance(parameters.get(name), dict | None):
            raise BadRequest(f"{name} is no JSON object.", field=name)
    return GraphQLRequest(query, parameters.get("variables"), operation_name)
