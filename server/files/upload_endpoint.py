"""PUT to the address of an upload: `/files/f_<number>?until=…&sig=…` (ADR 75, 76).

The signature is the permission; there is no token. Errors have the form of GraphQL's errors, with a status.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from resolvers.base.app import Confab
from resolvers.base.errors import A_MOMENT_MS, ConfabError, Forbidden, RateLimited, Unavailable
from resolvers.base.rate_limits import check_rate
from server.files.receiving import already_complete, check_announced, no_upload, receive_upload, seconds_for
from server.files.status_counter import counting
from server.http.client_limits import USER_KEY
from server.http.request import BadRequest, MediaType
from server.http.response import ResponseFormat
from server.http.uvicorn_protocol import BODY_TIME_EXTENSION
from store.base.errors import StoreError
from store.base.ids import UserId, parse_file_id
from store.files.file import File, FileState

log = structlog.get_logger(__name__)

MAX_UPLOADS = 64
"""Bodies that a process receives at once. Each takes up to a megabyte of memory."""

MAX_UPLOADS_PER_USER = 16
"""Of these, bodies for files of one user."""

_FORMAT = ResponseFormat(MediaType.JSON, uses_status=True)


class UploadEndpoint:
    """ASGI application that receives the bytes of uploads."""

    def __init__(
        self,
        app: Confab,
        *,
        max_uploads: int = MAX_UPLOADS,
        max_per_user: int = MAX_UPLOADS_PER_USER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._clock = clock
        self._max_uploads = max_uploads
        self._max_per_user = max_per_user
        self._running = 0
        self._by_user = Counter[UserId]()
        self.statuses = Counter[int]()
        """Answers to uploads, by status."""
        self.interrupted = 0
        """Uploads whose client disconnected before the end of the body."""
        self.bytes_received = 0
        """Bytes of bodies, also of those that were refused or interrupted."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one PUT: 204, or an error."""
        request = Request(scope, receive)
        send = counting(send, self.statuses)
        try:
            await self._receive(request)
        except ClientDisconnect:
            self.interrupted += 1
            return
        except ConfabError as error:
            await _FORMAT.failure(error)(scope, receive, send)
            return
        except BadRequest as bad:
            await _FORMAT.bad_request(bad)(scope, receive, send)
            return
        except StoreError as error:
            log.warning("store_failed", reason=str(error))
            failure = Unavailable("The service cannot answer at the moment. Try again.", retry_after_ms=A_MOMENT_MS)
            await _FORMAT.failure(failure)(scope, receive, send)
            return
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        await Response(status_code=204, headers=headers)(scope, receive, send)

    async def _receive(self, request: Request) -> None:
        number = parse_file_id(request.path_params["file"])
        until, signature = request.query_params.get("until", ""), request.query_params.get("sig", "")
        if number is None or not self._app.addresses.accepts_upload(str(number), until, signature):
            raise Forbidden("This address is not valid, or its time has passed. Call createUpload again.")
        _check_whole(request)
        with self._place():
            file = await self._app.store.files.find(number)
            if file is None or file.state is FileState.REMOVED:
                raise no_upload()
            if file.state is not FileState.UPLOADING:
                raise already_complete()
            check_announced(file, _content_length(request))
            # A repeated upload replaces the former one, so only its rate bounds what an owner makes the server store.
            check_rate(self._app.store.rate_limits.sends, file.owner)
            with self._place_of(file.owner):
                request.scope[USER_KEY] = file.owner
                await self._store(request, file)

    async def _store(self, request: Request, file: File) -> None:
        extend = request.scope.get("extensions", {}).get(BODY_TIME_EXTENSION)
        if extend is not None:
            extend(seconds_for(file.size))
        await receive_upload(self._app.store, file, self._counted(request.stream()), self._clock)
        log.info("upload_received", file=file.public_id, bytes=file.size)

    async def _counted(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in body:
            self.bytes_received += len(piece)
            yield piece

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Hold one of the places of the process. Raises Unavailable."""
        if self._running >= self._max_uploads:
            raise Unavailable("This server receives too many files. Try again.", retry_after_ms=A_MOMENT_MS)
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    @contextmanager
    def _place_of(self, user: UserId) -> Iterator[None]:
        """Hold one of the places of a user. Raises RateLimited."""
        if self._by_user[user] >= self._max_per_user:
            raise RateLimited("You are sending too many files at once. Try again.", retry_after_ms=A_MOMENT_MS)
        self._by_user[user] += 1
        try:
            yield
        finally:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]


def _check_whole(request: Request) -> None:
    """Raise BadRequest if the body is not the plain bytes of the whole file."""
    if "content-range" in request.headers:
        raise BadRequest("Content-Range is not supported. Send the whole file in one request.")
    if any(encoding.strip().lower() != "identity" for encoding in request.headers.getlist("content-encoding")):
        raise BadRequest("Content-Encoding is not supported. Send the bytes of the file as they are.")


def _content_length(request: Request) -> int | None:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else None
