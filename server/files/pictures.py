"""The endpoint of pictures of embeds: `GET /previews/<name>?until=…&sig=…&url=…` (ADR 76, 78)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from resolvers.base.app import Confab
from resolvers.base.errors import A_MOMENT_MS, Unavailable
from resolvers.base.file_addresses import PICTURES_PATH, picture_name
from server.files.answers import MISSING, REFUSED, ServedBlob, answer_safely, refuse, serve
from server.files.streaming import Downloads
from server.http.request_log import LOGGED_PATH_KEY
from store.files.file import File

PICTURE_PATTERN = PICTURES_PATH + "/{name}"

MOST_WAITING = 64
"""Requests that may wait for other sites at once. More are refused."""

FindPicture = Callable[[str], Awaitable[File | None]]
"""Returns the picture at an address of another site, READY and with content; None if there is none."""


class PictureDownloads:
    """ASGI application for addresses of pictures of embeds. Readers' addresses are not revealed to the sites."""

    def __init__(self, app: Confab, downloads: Downloads, find: FindPicture) -> None:
        self._app = app
        self._downloads = downloads
        self._find = find
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope[LOGGED_PATH_KEY] = f"{PICTURES_PATH}/{scope['path_params']['name'][:32]}"
        await answer_safely(self._answer, self._downloads, scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = QueryParams(scope["query_string"])
        until, signature, url = (query.get(name, "") for name in ("until", "sig", "url"))
        is_named = scope["path_params"]["name"] == picture_name(url)
        if not is_named or not self._app.addresses.accepts_picture(url, until, signature):
            await refuse(403, REFUSED)(scope, receive, send)
            return
        file = await self._find_or_wait(url)
        if file is None or file.content is None:
            await refuse(404, MISSING)(scope, receive, send)
            return
        found = file.content
        seconds = int(until) - self._app.store.clock.now_ms() // 1000
        content = ServedBlob(found.blob, found.size, found.content_type, None)
        await serve(self._app.store.blobs, self._downloads, content, seconds, scope, receive, send)

    async def _find_or_wait(self, url: str) -> File | None:
        if self._waiting >= MOST_WAITING:
            raise Unavailable("too many pictures are being fetched; please try again", retry_after_ms=A_MOMENT_MS)
        self._waiting += 1
        try:
            return await self._find(url)
        finally:
            self._waiting -= 1
