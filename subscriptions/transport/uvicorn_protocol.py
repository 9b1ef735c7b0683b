"""uvicorn's WebSocket protocol, with direct access to the socket, which can drop a peer that does not read.

In uvicorn, a sent frame passes through Starlette, ASGI and the protocol's state machine. A frame of the server carries
no state, so it can be written directly. Also, uvicorn ends a connection only when the peer has read all that was
written. A peer that does not read would keep its buffers until TCP gives up, and delay the shutdown of the server.

Use it as `uvicorn.Config(ws=DirectWebSocketProtocol, ws_ping_interval=None, ws_per_message_deflate=False)`. uvicorn's
own pings close with 1011, after which clients do not reconnect; `WebSocketTransport` has its own pings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, apply_mask  # type: ignore[attr-defined]
from websockets.http11 import Request
from websockets.protocol import State
from websockets.streams import StreamReader

from subscriptions.transport.frame_writer import SOCKET_EXTENSION, Socket
from subscriptions.transport.server_frames import TEXT

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

_MASKED = 0x80
"""Bit of the second byte of all frames of a client."""

_HEADER_BYTES = 6
"""Header of a client's short frame: two bytes, and the mask."""

_AT_MESSAGE_START = StreamReader.at_eof.__code__
"""Where the generator of the parser waits between two messages."""

_MESSAGES_AHEAD = 8
_SHORT_MESSAGE_BYTES = 4_096
"""Messages up to this size are read ahead of the application, up to this number."""

_MAX_FRAGMENTS = 1024
"""Fragments of one message. Each costs memory, and empty ones do not count towards the size of the message."""


class _ReceiveQueue:
    """The messages for the application, with one reader. An asyncio.Queue would take 3 KB for each connection."""

    __slots__ = ("_items", "_waiter")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._waiter: asyncio.Future[None] | None = None

    def put_nowait(self, item: Any) -> None:
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def empty(self) -> bool:
        return not self._items

    def __len__(self) -> int:
        return len(self._items)

    async def get(self) -> Any:
        while not self._items:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._items.pop(0)


class _LazyEvent:
    """An event that is usually set. An asyncio.Event of 800 bytes exists only while it is not set."""

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


class DirectWebSocketProtocol(WebSocketsSansIOProtocol):
    """Offers SOCKET_EXTENSION to the application.

    Aborts the connection `close_timeout` seconds after the application has ended, if the peer has not read everything.
    """

    was_heard = True
    _discarded: bytes | None = None
    _abort_timer: asyncio.TimerHandle | None = None
    _writable_callback: Callable[[bool], None] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.queue = cast(Any, _ReceiveQueue())
        self.writable = cast(Any, _LazyEvent())

    # Methods of subscriptions.transport.frame_writer.Socket

    @property
    def is_open(self) -> bool:
        """True while frames can be sent."""
        return not (self.close_sent or self.disconnected or self.transport.is_closing())

    @property
    def has_unread_messages(self) -> bool:
        """True if messages of the peer wait for the application."""
        return not self.queue.empty()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that the peer has not accepted yet."""
        return self.transport.get_write_buffer_size()

    def write(self, frames: bytes) -> None:
        """Send encoded frames."""
        self.transport.write(frames)

    def on_writable_change(self, call: Callable[[bool], None]) -> None:
        """Set the function to call when the peer becomes slow, catches up, or has gone."""
        self._writable_callback = call

    def discard_messages(self, text: bytes) -> None:
        """Discard the peer's messages with exactly this text, which is shorter than 126 bytes."""
        self._discarded = text

    def set_max_message_bytes(self, size: int) -> None:
        """Limit the size of the peer's next messages."""
        self.conn.max_message_size = size

    def abort(self) -> None:
        """Drop the connection at once."""
        self.transport.abort()

    # Methods of uvicorn's protocol

    def data_received(self, data: bytes) -> None:
        """Parse data, except for the messages that are discarded.

        Nearly all that idle peers send are pongs. Parsing one, and waking the application for it, would be most of the
        cost of an idle connection.
        """
        self.was_heard = True
        discarded = self._discarded
        if discarded is not None and len(data) == _HEADER_BYTES + len(discarded) and self._is_message(data, discarded):
            return
        super().data_received(data)

    def _is_message(self, data: bytes, text: bytes) -> bool:
        """Return whether data is a whole message with this text, between two other messages."""
        return (
            data[0] == TEXT
            and data[1] == _MASKED | len(text)
            and apply_mask(data[_HEADER_BYTES:], data[2:_HEADER_BYTES]) == text
            and self._is_between_messages
        )

    @property
    def _is_between_messages(self) -> bool:
        """True if the parser waits for the first byte of a message, and the connection is open."""
        conn = self.conn
        waiting: Any = conn.parser
        while waiting.gi_yieldfrom is not None:
            waiting = waiting.gi_yieldfrom
        return waiting.gi_code is _AT_MESSAGE_START and conn.current_size is None and conn.state is State.OPEN

    async def send(self, message: ASGISendEvent) -> None:
        """Send an ASGI event, and release the memory of the handshake after it."""
        await super().send(message)
        if message["type"] == "websocket.accept":
            # Otherwise the handshake's request and headers would stay in memory as long as the connection.
            self.request = self.response = cast(Any, None)
            self.scope["headers"] = ()

    def pause_writing(self) -> None:
        """Note that the peer is slow."""
        super().pause_writing()
        if self._writable_callback is not None:
            self._writable_callback(False)

    def resume_writing(self) -> None:
        """Note that the peer has caught up."""
        super().resume_writing()
        if self._writable_callback is not None:
            self._writable_callback(True)

    def handle_connect(self, event: Request) -> None:
        """Offer the socket to the application."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            # ASGI types extensions as a dict of dicts. Inside one process, an extension can be any object.
            extensions = cast(dict[str, Socket], self.scope["extensions"])
            extensions[SOCKET_EXTENSION] = self

    def handle_cont(self, event: Frame) -> None:
        """Receive a fragment. Fails the connection with 1009 if there are too many."""
        if self.close_sent:
            return
        if len(self.frames) < _MAX_FRAGMENTS:
            super().handle_cont(event)
        else:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Hand a message to the application, or fail the connection with 1007 if it is not UTF-8.

        Reading continues while few short messages wait: pausing and resuming for each would cost four system calls.
        """
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if self.close_sent:
            return
        if self.curr_msg_data_type == "text":
            try:
                text = data.decode()
            except UnicodeDecodeError:
                self.conn.send_close(1007)
                self.handle_parser_exception()
                return
            self.queue.put_nowait({"type": "websocket.receive", "text": text})
        else:
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
        is_ahead = len(data) > _SHORT_MESSAGE_BYTES or len(cast(_ReceiveQueue, self.queue)) > _MESSAGES_AHEAD
        if is_ahead and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_ping(self) -> None:
        """Answer a ping, unless the peer is slow."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            # A peer that does not read gets no pongs. RFC 6455, 5.5.3 allows to leave them out.
            self.conn.data_to_send()

    async def run_asgi(self) -> None:
        """Run the application, and start the timer that aborts the connection."""
        await super().run_asgi()
        if not self.disconnected:
            self._abort_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the peer has gone."""
        super().connection_lost(exc)
        if self._writable_callback is not None:
            self._writable_callback(True)
            self._writable_callback = None
        if self._abort_timer is not None:
            self._abort_timer.cancel()
