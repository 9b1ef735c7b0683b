"""Headers of files. Files are untrusted content: browsers must neither guess their types nor run anything in them."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

from resolvers.files.inspection.results import DEFAULT_TYPE, is_displayed

# Browsers' own viewers of images, audio and video load the address again, and set styles on their elements. Chromium
# shows a PDF with this policy too.
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": (
        "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox"
    ),
    "cross-origin-resource-policy": "cross-origin",
    # Addresses are valid for everybody who has them, and no cookies are read.
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "content-disposition, content-length, content-range, etag, retry-after",
    "referrer-policy": "no-referrer",
}
"""Headers that every response about files has."""

_FALLBACK = re.compile(r"[^ A-Za-z0-9!#$&+.^_`|~(){}\[\]@=,;'-]")
"""Characters that are replaced in names for clients without `filename*`."""


def etag_of(blob: str) -> str:
    """Return the strong ETag of a blob. Blobs never change, and their names are never used twice."""
    return f'"{hashlib.blake2b(blob.encode(), digest_size=12).hexdigest()}"'


def served_type(content_type: str) -> str:
    """Return the type as it is served. Types that browsers don't display safely are no types to them."""
    if not is_displayed(content_type):
        return DEFAULT_TYPE
    return "text/plain; charset=utf-8" if content_type == "text/plain" else content_type


def disposition(content_type: str, filename: str | None) -> str:
    """Return the value of `Content-Disposition`: a download unless browsers display the type safely (RFC 6266)."""
    kind = "inline" if is_displayed(content_type) else "attachment"
    if filename is None:
        return kind
    fallback = _FALLBACK.sub("_", filename)
    value = f'{kind}; filename="{fallback}"'
    if fallback != filename:
        value += f"; filename*=UTF-8''{quote(filename, safe='', errors='replace')}"
    return value


def content_headers(blob: str, content_type: str, filename: str | None) -> dict[str, str]:
    """Return the headers of a response with a blob, except for lengths and caching."""
    return {
        "content-type": served_type(content_type),
        "content-disposition": disposition(content_type, filename),
        "etag": etag_of(blob),
        "accept-ranges": "bytes",
    }


def cache_control(seconds: int) -> str:
    """Return the value of `Cache-Control` for an address that is valid for some seconds more."""
    return f"private, max-age={max(0, seconds)}, immutable"
