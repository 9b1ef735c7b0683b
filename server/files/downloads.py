"""The endpoint at which files are read: `GET /files/<id>/<variant>/<name>?until=…&sig=…` (ADR 76)."""

from __future__ import annotations

import re

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from resolvers.base.app import Confab
from resolvers.base.file_addresses import FILES_PATH, ORIGINAL
from resolvers.files.reading import ReadableFile, find_readable
from resolvers.files.thumbnails import Thumbnails
from server.files.answers import MISSING, REFUSED, ServedBlob, answer_safely, refuse, serve
from server.files.streaming import Downloads
from server.http.request_log import LOGGED_PATH_KEY
from store.base.ids import parse_file_id

FILE_PATTERN = FILES_PATH + "/{file}/{variant}/{name:path}"

_WIDTH = re.compile(r"[1-9][0-9]{1,4}\Z")


class FileDownloads:
    """ASGI application for addresses of files. It needs no token: the signature is the permission."""

    def __init__(self, app: Confab, downloads: Downloads, thumbnails: Thumbnails) -> None:
        self._app = app
        self._downloads = downloads
        self._thumbnails = thumbnails

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        parts = scope["path_params"]
        # Names of files and signatures stay out of the log.
        scope[LOGGED_PATH_KEY] = f"{FILES_PATH}/{parts['file'][:32]}/{parts['variant'][:8]}"
        await answer_safely(self._answer, self._downloads, scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope["path_params"]
        variant, name = parts["variant"], parts["name"]
        query, number = QueryParams(scope["query_string"]), parse_file_id(parts["file"])
        until = query.get("until", "")
        signature = query.get("sig", "")
        width = _parse_width(variant)
        if (
            number is None
            or width == 0
            or not self._app.addresses.accepts_file(str(number), variant, name, until, signature)
        ):
            await refuse(403, REFUSED)(scope, receive, send)
            return
        readable = await find_readable(self._app, number, width)
        content = await self._find_content(readable) if readable is not None else None
        if content is None:
            await refuse(404, MISSING)(scope, receive, send)
            return
        seconds = int(until) - self._app.store.clock.now_ms() // 1000
        await serve(self._app.store.blobs, self._downloads, content, seconds, scope, receive, send)

    async def _find_content(self, readable: ReadableFile) -> ServedBlob | None:
        file, found, width = readable
        if width is None:
            return ServedBlob(found.blob, found.size, found.content_type, file.filename)
        thumbnail = await self._thumbnails.find_or_make(file, found, width)
        return ServedBlob(*thumbnail, None) if thumbnail is not None else None


def _parse_width(variant: str) -> int | None:
    """Return the width of a thumbnail; None for the file itself; 0 for anything else."""
    if variant == ORIGINAL:
        return None
    return int(variant) if _WIDTH.match(variant) else 0
