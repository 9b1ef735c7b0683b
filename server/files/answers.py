"""Answers about files: a blob with its headers, a redirect to the blob store, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resolvers.base.errors import ConfabError
from server.files.byte_ranges import Unsatisfiable, find_range, is_unchanged
from server.files.headers import SECURITY_HEADERS, cache_control, content_headers, disposition
from server.files.status_counter import counting
from server.files.streaming import Downloads, aborting
from store.base.errors import StoreError
from store.files.blobs.base import BlobMissing, BlobStore

_METHODS = "GET, HEAD, OPTIONS"
_BUSY_SECONDS = 2
"""Seconds after which a client that was refused may come back."""

_log = structlog.get_logger(__name__)

REFUSED = "This address has expired or is not valid. Load the message again to get a new one."
MISSING = "This file does not exist any more."
_BUSY = "Too many files are being read. Try again."
_OVERLOADED = "This server is overloaded. Try again."
_UNREADABLE = "The file cannot be read at the moment. Try again."


class ServedBlob(NamedTuple):
    """A blob that an address stands for, with its length, its type, and the filename for downloads."""

    blob: str
    size: int
    content_type: str
    filename: str | None


async def answer_safely(answer: ASGIApp, downloads: Downloads, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a GET or HEAD; other methods, and failures before the first byte of the answer, are refused."""
    send = counting(send, downloads.statuses)
    refusal = refuse_method(scope)
    if refusal is None:
        try:
            await answer(scope, receive, send)
            return
        except (StoreError, ConfabError) as error:
            _log.warning("file_not_read", reason=str(error))
            refusal = refuse(503, _UNREADABLE, {"retry-after": str(_BUSY_SECONDS)})
    await refusal(scope, receive, send)


async def serve(
    blobs: BlobStore,
    downloads: Downloads,
    content: ServedBlob,
    seconds: int,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Answer a GET or HEAD with a blob, or redirect to the blob store.

    `seconds`: the address is valid for this time. Raises StoreError if nothing was sent.
    """
    request, is_head = Headers(scope=scope), scope["method"] == "HEAD"
    headers = content_headers(content.blob, content.content_type, content.filename)
    headers["cache-control"] = cache_control(seconds)
    if is_unchanged(request, headers["etag"]):
        await _respond(304, {name: headers[name] for name in ("etag", "cache-control")}, scope, receive, send)
        return
    # An address of the store is signed for GET.
    direct = (
        None
        if is_head
        else blobs.download_url(
            content.blob, headers["content-type"], disposition(content.content_type, content.filename), max(1, seconds)
        )
    )
    if direct is not None:
        await _respond(302, {"location": direct, "cache-control": headers["cache-control"]}, scope, receive, send)
        return
    status, start, end = 200, 0, content.size
    if not is_head:
        try:
            found = find_range(request, content.size, headers["etag"])
        except Unsatisfiable:
            unsatisfied = {"content-range": f"bytes */{content.size}", "accept-ranges": "bytes"}
            await refuse(416, "There is no such range.", unsatisfied)(scope, receive, send)
            return
        if found is not None:
            status, (start, end) = 206, found
            headers["content-range"] = f"bytes {start}-{end - 1}/{content.size}"
    headers["content-length"] = str(end - start)
    if is_head:
        await _respond(status, headers, scope, receive, send)
        return
    download = downloads.begin(aborting(scope))
    if download is None:
        await refuse(503, _BUSY, {"retry-after": str(_BUSY_SECONDS)})(scope, receive, send)
        return
    try:
        head: Message = {"type": "http.response.start", "status": status, "headers": _raw(headers)}
        await downloads.send(download, head, blobs.read(content.blob, start, end), scope, receive, send)
    except BlobMissing:
        await refuse(404, MISSING)(scope, receive, send)
    finally:
        downloads.end(download)


def refuse_method(scope: Scope) -> Response | None:
    """Return the answer to requests that are neither GET nor HEAD."""
    method = scope["method"]
    if method in ("GET", "HEAD"):
        return None
    if method == "OPTIONS":
        allowed = {"access-control-allow-methods": _METHODS, "access-control-allow-headers": "*", "allow": _METHODS}
        return Response(status_code=204, headers=SECURITY_HEADERS | allowed)
    return refuse(405, "Files are read with GET or HEAD.", {"allow": _METHODS})


def refuse(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a refusal, which nobody may cache."""
    merged = {**SECURITY_HEADERS, "cache-control": "no-store", **(headers or {})}
    return Response(f"{message}\n", status, merged, "text/plain")


async def refuse_while_overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer that this server is overloaded. Pages of all origins can read it, like the other answers."""
    await refuse(503, _OVERLOADED, {"retry-after": str(_BUSY_SECONDS)})(scope, receive, send)


async def _respond(status: int, headers: Mapping[str, str], scope: Scope, receive: Receive, send: Send) -> None:
    """Send a response without a body."""
    await send({"type": "http.response.start", "status": status, "headers": _raw(headers)})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    merged = {**SECURITY_HEADERS, **headers}
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in merged.items()]
