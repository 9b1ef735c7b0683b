"""Bodies of requests to incoming webhooks: JSON, or a form with JSON in its field `payload`, as Slack takes it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from server.http.request import BadRequest, parse_json, read_body

JSON_TYPE, FORM_TYPE = "application/json", "application/x-www-form-urlencoded"

_MOST_FORM_FIELDS = 100


async def read_webhook_body(request: Request, max_bytes: int) -> Any:
    """Return the decoded JSON of a body. Raises BadRequest and ClientDisconnect."""
    media_type, *parameters = (part.strip().lower() for part in request.headers.get("content-type", "").split(";"))
    if media_type not in (JSON_TYPE, FORM_TYPE):
        raise BadRequest(f"Send the message as Content-Type: {JSON_TYPE}.", status=415)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in ("utf-8", "utf8"):
            raise BadRequest("Send the body in UTF-8.", status=415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("Send the body uncompressed.", status=415, headers={"accept-encoding": "identity"})
    body = await read_body(request, max_bytes)
    if media_type == JSON_TYPE:
        return parse_json(body, "The body")
    return parse_json(_payload(body).encode(), "payload", field="payload")


def _payload(body: bytes) -> str:
    """Return the field `payload` of a form. Raises BadRequest."""
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FORM_FIELDS)
    except ValueError:
        raise BadRequest("The body is not a form in UTF-8.") from None
    for name, value in fields:
        if name == "payload":
            return value
    raise BadRequest(f"Send the message as Content-Type: {JSON_TYPE}, or as the field payload of a form.")
