"""Streams blobs to clients. Bounds memory: at most a piece per download, and a number of downloads at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import cast

import structlog
from starlette.types import Message, Receive, Scope, Send

from server.http.uvicorn_protocol import ABORT_EXTENSION
from store.base.errors import StoreError

PIECE_BYTES = 65_536
"""Bytes that are written at once. A client has to accept them in the time limit of answers."""

SLOW_SECONDS = 5.0
"""Time after which a client that has not accepted a piece may lose its place to another one."""

_log = structlog.get_logger(__name__)


class Download:
    """One running download. `waiting_since` is set while its client does not accept bytes."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self.drop = drop
        self.waiting_since: float | None = None


class Downloads:
    """The downloads of one process, at most `most` at once.

    If all places are taken, the download whose client has accepted nothing for the longest time is dropped. If none has
    waited for long, the new one is refused. So slow clients cannot keep others from reading files.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._running: set[Download] = set()
        self.statuses = Counter[int]()
        """Answers to requests for files and pictures, by status."""
        self.bytes_sent = 0
        self.refused = 0
        self.dropped = 0

    @property
    def running(self) -> int:
        """Number of downloads at the moment."""
        return len(self._running)

    def begin(self, drop: Callable[[], None]) -> Download | None:
        """Take a place. Returns None if there is none. `drop` ends the download at once."""
        if len(self._running) >= self._most and not self._make_room():
            self.refused += 1
            return None
        download = Download(drop)
        self._running.add(download)
        return download

    def end(self, download: Download) -> None:
        """Give the place back. Idempotent."""
        self._running.discard(download)

    def _make_room(self) -> bool:
        waiting = [(each.waiting_since, each) for each in self._running if each.waiting_since is not None]
        since, slowest = min(waiting, key=lambda pair: pair[0], default=(None, None))
        if since is None or slowest is None or self._clock() - since < SLOW_SECONDS:
            return False
        self.dropped += 1
        self.end(slowest)
        slowest.drop()
        return True

    async def send(
        self,
        download: Download,
        head: Message,
        pieces: AsyncIterator[bytes],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send a response as fast as its client reads.

        If the store fails before the first byte, nothing is sent and the error is raised. Later the connection is
        dropped: the client sees that bytes are missing.
        """
        async with aclosing(cast(AsyncGenerator[bytes, None], pieces)):
            first = await anext(pieces)
            await send(head)
            gone = asyncio.create_task(_wait_until_disconnected(receive))
            try:
                await self._send_piece(download, first, send)
                async for piece in pieces:
                    if gone.done():
                        return
                    await self._send_piece(download, piece, send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except StoreError as error:
                _log.warning("download_failed", reason=str(error))
                if ABORT_EXTENSION not in scope.get("extensions", {}):
                    raise
                download.drop()
                # Lets the server notice that the connection is lost.
                await gone
            finally:
                gone.cancel()

    async def _send_piece(self, download: Download, data: bytes, send: Send) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            download.waiting_since = self._clock()
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            download.waiting_since = None
            self.bytes_sent += len(piece)


async def _wait_until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def aborting(scope: Scope) -> Callable[[], None]:
    """Return the function that drops the connection of a request."""
    abort: Callable[[], None] = scope.get("extensions", {}).get(ABORT_EXTENSION, _do_nothing)
    return abort


def _do_nothing() -> None:
    return
