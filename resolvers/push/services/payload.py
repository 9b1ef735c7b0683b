"""The content of pushes, cut to the size that a service takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from resolvers.push.push_service import PushMessage

TTL_SECONDS = 3 * 24 * 3600
"""Time for which a service keeps a push for a device that is off. Then the app shows what is unread by itself."""

_ELLIPSIS = "…"


def payload_of(message: PushMessage) -> dict[str, Any]:
    """Return the payload that the contract promises. A quiet push has an empty title and body, and `quiet`: true."""
    payload: dict[str, Any] = {"title": message.title, "body": message.body} | reference_of(message)
    return payload | {"quiet": True} if message.is_quiet else payload


def reference_of(message: PushMessage) -> dict[str, Any]:
    """Return the part of the payload without texts: conversation, badge and tag."""
    return {"conversationId": message.conversation, "badge": message.badge, "tag": message.tag}


def encode_payload(message: PushMessage, build: Callable[[PushMessage], Mapping[str, Any]], most_bytes: int) -> bytes:
    """Return what `build` makes of a message, as JSON of at most `most_bytes` bytes.

    If it is too large, the body is cut, and the title if that is not enough.
    """

    def encode(candidate: PushMessage) -> bytes:
        return orjson.dumps(build(candidate))

    def cut(text: str, put: Callable[[str], PushMessage]) -> PushMessage:
        """Return the message with the longest beginning of a text that fits; with none if nothing fits."""
        fitting, too_long = 0, len(text)
        while too_long - fitting > 1:
            middle = (fitting + too_long) // 2
            if len(encode(put(_shorten(text, middle)))) <= most_bytes:
                fitting = middle
            else:
                too_long = middle
        return put(_shorten(text, fitting))

    if len(encode(message)) > most_bytes:
        message = cut(message.body, lambda text: replace(message, body=text))
    if len(encode(message)) > most_bytes:
        message = cut(message.title, lambda text: replace(message, title=text))
    return encode(message)


def _shorten(text: str, length: int) -> str:
    return text[:length].rstrip() + _ELLIPSIS if length else ""
