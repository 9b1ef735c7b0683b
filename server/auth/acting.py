"""Acting for users: where requests and connections name the user that their caller acts for (ADR 42)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers

ACT_AS_HEADER = "Confab-Act-As"
ACT_AS_KEY = "actAs"
"""Key in the payload of connection_init."""

_PERCENT_ENCODED = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*\Z", re.ASCII)


def parse_act_as_header(headers: Headers) -> str | None:
    """Return the user that the caller of an HTTP request acts for; None if it names none.

    A malformed header gives a text that is no user id.
    """
    values = headers.getlist(ACT_AS_HEADER)
    return _decode(values) if values else None


def parse_act_as_payload(payload: dict[str, Any]) -> str | None:
    """Return the user that the caller of a WebSocket acts for; None if connection_init names none.

    A malformed value gives a text that is no user id.
    """
    user = payload.get(ACT_AS_KEY)
    return user if isinstance(user, str) or user is None else ""


def _decode(values: list[str]) -> str:
    """Return the user id in the header, or "", which is no user id, unless it is one value in percent-encoded UTF-8."""
    value = values[0]
    if len(values) > 1 or not value.isascii() or not _PERCENT_ENCODED.match(value):
        return ""
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        return ""
