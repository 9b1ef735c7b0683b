"""uvicorn's WebSocket protocol, with a way past ASGI for frames, and able to let go of a peer that has stopped reading.

As it comes, sending a frame passes through starlette, ASGI and the protocol's state machine; a frame of the server's carries no
state, so it can as well be put together here. And every way to end a connection waits until the peer has read what was
written: one that doesn't keeps its buffers for as long as TCP believes in it, and holds up the server's shutdown.

Use it as `uvicorn.Config(ws=DirectWebSocketProtocol, ws_ping_interval=None, ws_per_message_deflate=False)`: uvicorn's own pings
close with 1011, after which clients don't come back, and `TransportWS` has pings of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from subscriptions.transport.frame_writer import SOCKET_EXTENSION, Socket

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

_TEXT = 0x81
"""First byte of a text message in one frame (RFC 6455, 5.2)."""

_MAX_FRAGMENTS = 1024
"""Of one message. Each costs memory however short it is, and empty ones don't count towards a message's size."""


class _Messages:
    """What the application is to receive, for one reader. An asyncio.Queue takes 3 KB, on each of thousands of connections."""

    __slots__ = ("_items", "_waiting")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._waiting: asyncio.Future[None] | None = None

    def put_nowait(self, item: Any) -> None:
        self._items.append(item)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def empty(self) -> bool:
        return not self._items

    async def get(self) -> Any:
        while not self._items:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self._items.pop(0)


class _Gate:
    """Open most of the time. An asyncio.Event takes 800 bytes all that time."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None

    def is_set(self) -> bool:
        return self._event is None

    def set(self) -> None:
        event, self._event = self._event, None
        if event is not None:
            event.set()

    def clear(self) -> None:
        if self._event is None:
            self._event = asyncio.Event()

    async def wait(self) -> None:
        if self._event is not None:
            await self._event.wait()


def _header(size: int) -> bytes:
    if size < 126:
        return bytes((_TEXT, size))
    if size < 65_536:
        return bytes((_TEXT, 126, size >> 8, size & 255))
    return bytes((_TEXT, 127)) + size.to_bytes(8, "big")


class DirectWebSocketProtocol(WebSocketsSansIOProtocol):
    """Offers SOCKET_EXTENSION to the application, and aborts `close_timeout` seconds after the application has ended whatever
    the peer has not read by then."""

    _abort_timer: asyncio.TimerHandle | None = None
    _on_flow: Callable[[bool], None] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queue = cast(Any, _Messages())
        self.writable = cast(Any, _Gate())

    # --- subscriptions.transport.writing.Socket

    @property
    def is_open(self) -> bool:
        return not (self.close_sent or self.disconnected or self.transport.is_closing())

    @property
    def waiting(self) -> int:
        return self.transport.get_write_buffer_size()

    def write(self, *payload: bytes) -> None:
        self.transport.write(b"".join((_header(sum(map(len, payload))), *payload)))

    def write_both(self, first: bytes, second: bytes) -> None:
        self.transport.write(b"".join((_header(len(first)), first, _header(len(second)), second)))

    def on_flow(self, call: Callable[[bool], None]) -> None:
        self._on_flow = call

    def limit_messages(self, size: int) -> None:
        self.conn.max_message_size = size

    def abort(self) -> None:
        self.transport.abort()

    # --- uvicorn

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.accept":
            # The handshake's, for as long as the connection lasts otherwise.
            self.request = self.response = cast(Any, None)
            self.scope["headers"] = ()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._on_flow is not None:
            self._on_flow(False)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._on_flow is not None:
            self._on_flow(True)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            # Typed as a dict of dicts by ASGI; an extension within the process can be what it likes.
            extensions = cast(dict[str, Socket], self.scope["extensions"])
            extensions[SOCKET_EXTENSION] = self

    def handle_cont(self, event: Frame) -> None:
        if self.close_sent:
            return
        if len(self.frames) < _MAX_FRAGMENTS:
            super().handle_cont(event)
        else:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            # Who doesn't read gets no more to read, and need not (RFC 6455, 5.5.3).
            self.conn.data_to_send()

    async def run_asgi(self) -> None:
        await super().run_asgi()
        if not self.disconnected:
            self._abort_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._on_flow is not None:
            self._on_flow(True)
            self._on_flow = None
        if self._abort_timer is not None:
            self._abort_timer.cancel()
