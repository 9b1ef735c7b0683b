"""Turns what a site says into values that are safe to show."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import httpx

from store.previews.embed import MAX_URL
from store.previews.links import is_link

_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_INVISIBLE = re.compile(
    r"[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\uffff\ud800-\udfff]"
)
"""Marks that change the direction of text around them, and characters without a form. Joiners of letters stay."""

_HEX_COLOR = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})", re.I)
_RGB_COLOR = re.compile(r"rgba?\(\s*(\d{1,3})\s*[, ]\s*(\d{1,3})\s*[, ]\s*(\d{1,3})\s*[,)/]")

_MAX_PIXELS = 100_000


def clean_text(value: object, most: int) -> str | None:
    """Return plain text of at most `most` characters in one line; None if nothing is left."""
    if not isinstance(value, str):
        return None
    text = _SPACES.sub(" ", _INVISIBLE.sub("", value[: 16 * most])).strip()
    if len(text) > most:
        text = text[: most - 1].rstrip() + "…"
    return text or None


def clean_url(value: object, base: str) -> str | None:
    """Return an absolute http or https address; None if it is none. `base`: what it may be relative to."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_URL:
        return None
    try:
        joined = str(httpx.URL(base).join(value.strip()))
    except (httpx.InvalidURL, ValueError):
        return None
    return joined if is_link(joined) else None


def clean_color(value: object) -> str | None:
    """Return a colour as `#rrggbb`; None if it has another form."""
    if not isinstance(value, str):
        return None
    text = value[:50].strip().lower()
    if found := _HEX_COLOR.fullmatch(text):
        digits = found[1]
        return "#" + (digits if len(digits) == 6 else "".join(2 * digit for digit in digits))
    if found := _RGB_COLOR.match(text):
        parts = [int(part) for part in found.groups()]
        return "#{:02x}{:02x}{:02x}".format(*parts) if max(parts) < 256 else None
    return None


def clean_pixels(value: object) -> int | None:
    """Return a width or height in pixels; None if it is none."""
    text = str(value).strip().removesuffix("px") if isinstance(value, str | int) else ""
    pixels = int(text) if re.fullmatch(r"[0-9]{1,6}", text) else 0
    return pixels if 0 < pixels <= _MAX_PIXELS else None


def clean_time(value: object) -> int | None:
    """Return a time of ISO 8601 in ms since the epoch; None if it has another form. Without a zone it is UTC."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value[:40].strip())
        milliseconds = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return milliseconds if milliseconds >= 0 else None
