"""The endpoint for webhooks of LiveKit.

A webhook is only a hint: the room is looked at, and nothing else in the webhook is believed. So it does no harm if one
is lost, late, or sent again by somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from resolvers.voice.media.livekit_tokens import LiveKitTokens

_log = structlog.get_logger(__name__)

WEBHOOK_PATH = "/livekit/webhook"

MOST_BYTES = 64 * 1024
"""Largest body. LiveKit's webhooks about rooms and participants have a few kilobytes."""

_EVENTS = frozenset(
    {
        "room_started",
        "room_finished",
        "participant_joined",
        "participant_left",
        "participant_connection_aborted",
    }
)


def livekit_webhook_route(tokens: LiveKitTokens, note: Callable[[str], None]) -> Route:
    """Return the route. note: takes the name of a room that has changed."""

    async def receive(request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        # Others may not make this server read a body.
        if not tokens.verifies(token):
            return _refuse(401, "invalid_signature", "The Authorization header has no valid token of this API key.")
        body = await _read(request)
        if body is None:
            return _refuse(413, "too_large", f"The body has more than {MOST_BYTES} bytes.")
        if not tokens.signs_body(token, body):
            return _refuse(401, "invalid_hash", "The token is for another body.")
        try:
            event = orjson.loads(body)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            return _refuse(400, "invalid_json", "The body is not a JSON object.")
        room = _room_of(event)
        if room is not None:
            note(room)
        return Response(status_code=200)

    return Route(WEBHOOK_PATH, receive, methods=["POST"])


def _room_of(event: dict[str, Any]) -> str | None:
    """Return the room that an event is about, if it changes who is in it."""
    room = event.get("room")
    if event.get("event") not in _EVENTS or not isinstance(room, dict):
        return None
    name = room.get("name")
    return name if isinstance(name, str) else None


async def _read(request: Request) -> bytes | None:
    """Return the body; None if it is too large."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                return None
    except ClientDisconnect:
        # Its hash does not match.
        return b""
    return bytes(body)


def _refuse(status: int, reason: str, message: str) -> Response:
    _log.info("livekit_webhook_refused", reason=reason)
    return Response(f"{message}\n", status, {"cache-control": "no-store"}, "text/plain")
