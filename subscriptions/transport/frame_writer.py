"""Writes the frames of a connection in order, with bounded memory.

Frames of events are collected, and go to the server's transport at the end of the event loop's turn, all frames of
a connection in one write (`joined_writes.py`). Other frames go there at once. If the peer is slow, operations with
frames to send wait. So a peer that does not read occupies at most the collected frames, one transport buffer, and the
events in its queue budget (`subscriptions.realtime.mailboxes.QueueBudget`).
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.realtime.unsent_answers import LARGE_BYTES, HeldBytes, UnsentAnswers
from subscriptions.transport.close_codes import Close
from subscriptions.transport.engine import AnswerRefused
from subscriptions.transport.host import TransportLimits
from subscriptions.transport.joined_writes import JoinedWrites
from subscriptions.transport.server_frames import text_frame

_MAX_COLLECTED_BYTES = 32_768
"""Collected frames of this size or more are written without waiting for the end of the turn."""

SOCKET_EXTENSION = "confab.socket"
"""Key of the server's `Socket` in the extensions of the ASGI scope."""


class Socket(Protocol):
    """The server's socket without the detour through ASGI. It can also drop a peer that does not read."""

    was_heard: bool
    """Set to True whenever the peer sends anything."""

    @property
    def is_open(self) -> bool:
        """True while frames can be sent."""
        ...

    @property
    def has_unread_messages(self) -> bool:
        """True if messages of the peer wait for the application."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Bytes that the peer has not accepted yet."""
        ...

    def write(self, frames: bytes) -> None:
        """Send encoded frames. Never waits. The socket must be open."""
        ...

    def on_writable_change(self, call: Callable[[bool], None]) -> None:
        """Set the function to call with False when the peer is slow, and True when it has caught up or has gone."""
        ...

    def discard_messages(self, text: bytes) -> None:
        """Discard the peer's messages with exactly this short text, before the application receives them."""
        ...

    def set_max_message_bytes(self, size: int) -> None:
        """Limit the size of the peer's next messages. A larger message ends the connection with 1009."""
        ...

    def abort(self) -> None:
        """Drop the connection at once, with all buffered bytes."""
        ...


def socket_of(websocket: WebSocket) -> Socket:
    """Return the server's socket. Raises KeyError if the server does not use `uvicorn_protocol`."""
    socket: Socket = websocket.scope["extensions"][SOCKET_EXTENSION]
    return socket


class PeerGone(Exception):
    """Raised when the connection has ended and nothing can be written."""


class FrameWriter:
    """Writes frames in the order of the requests to write, as fast as the peer reads them.

    A peer is stalled if it accepts too few bytes in `send_timeout_seconds`, or if it still has events waiting
    `sync_timeout_seconds` after events were dropped because its queue budget was used up.
    """

    def __init__(
        self,
        websocket: WebSocket,
        queue_budget: QueueBudget,
        limits: TransportLimits,
        on_stall: Callable[[], None],
        joined_writes: JoinedWrites,
        unsent: UnsentAnswers,
    ) -> None:
        """`on_stall` is called for a stalled peer, and repeatedly until it ends the connection.

        `unsent` counts the bytes that wait for the peer.
        """
        self.user: str | None = None
        """The user whose bytes are counted."""
        self._websocket = websocket
        self._socket = socket_of(websocket)
        self._queue_budget = queue_budget
        self._send_timeout = limits.send_timeout_seconds
        self._sync_timeout = limits.sync_timeout_seconds
        self._on_stall = on_stall
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._joined_writes = joined_writes
        self._collected: list[bytes] | None = None
        self._collected_bytes = 0
        self._is_peer_slow = False
        self._unsent = unsent
        self._min_bytes_per_second = limits.min_bytes_per_second
        self._buffer_held: HeldBytes | None = None
        self._waiting_calls: OrderedDict[Callable[[], None], None] = OrderedDict()
        self._stall_timer: asyncio.TimerHandle | None = None
        self._buffered_at_last_check: float = 0
        self._check_seconds = limits.send_timeout_seconds
        self._socket.on_writable_change(self._on_writable_change)

    @property
    def is_writable(self) -> bool:
        """True if a frame may be written now."""
        return not self._is_peer_slow

    @property
    def is_closed(self) -> bool:
        """True after the end, when nothing can be sent."""
        return self._is_closed or not self._socket.is_open

    def write_soon(self, frame: bytes) -> None:
        """Write an encoded frame, with the other frames of this turn of the event loop.

        Call it only while `is_writable`. Does nothing after the end.
        """
        if self._collected is None:
            self._collected = [frame]
            self._collected_bytes = len(frame)
            self._joined_writes.add(self.write_collected)
        else:
            self._collected.append(frame)
            self._collected_bytes += len(frame)
        if self._collected_bytes >= _MAX_COLLECTED_BYTES:
            self.write_collected()

    def write_collected(self) -> None:
        """Write the frames that are collected, if there are any."""
        collected = self._collected
        if collected is not None:
            self._collected = None
            if not self.is_closed:
                self._socket.write(b"".join(collected))

    def take_sign_of_life(self) -> bool:
        """Return whether the peer has sent anything since the last call."""
        was_heard, self._socket.was_heard = self._socket.was_heard, False
        return was_heard

    def call_when_writable(self, call: Callable[[], None]) -> None:
        """Queue a call for when the peer has caught up. It is also made when the connection ends."""
        self._waiting_calls[call] = None

    def cancel_call(self, call: Callable[[], None]) -> None:
        """Remove a call from the queue.

        An operation that has nothing left to write must do this. Otherwise operations that begin and end while the peer
        does not read would fill the queue.
        """
        self._waiting_calls.pop(call, None)

    async def write(
        self, frame: str | bytes, is_wanted: Callable[[], bool] = lambda: True, *, then: bytes | None = None
    ) -> None:
        """Wait until the peer accepts frames, and write a frame if it `is_wanted` at that time.

        Args:
            frame: The frame.
            is_wanted: Called right before the frame is written.
            then: Another frame to write directly after it.

        Raises:
            PeerGone: The connection has ended.
            AnswerRefused: The frame is large, and too many bytes of the user wait.
        """
        size = len(frame)
        if size > LARGE_BYTES and not self._unsent.has_room(self.user, size):
            raise AnswerRefused
        if self._is_peer_slow and not self.is_closed:
            await self._wait_until_writable(size)
        if self.is_closed:
            raise PeerGone
        if not is_wanted():
            return
        self.write_collected()
        payload = frame.encode() if isinstance(frame, str) else frame
        encoded = text_frame(payload)
        self._socket.write(encoded if then is None else encoded + text_frame(then))

    async def _wait_until_writable(self, size: int) -> None:
        held = self._unsent.hold(self.user, size, self._drop)
        try:
            while self._is_peer_slow and not self.is_closed:
                writable = asyncio.Event()
                self.call_when_writable(writable.set)
                try:
                    await writable.wait()
                finally:
                    self.cancel_call(writable.set)
        finally:
            self._unsent.release(held)

    def _hold_buffer(self) -> None:
        self._unsent.release(self._buffer_held)
        self._buffer_held = None
        if self._is_peer_slow:
            self._buffer_held = self._unsent.hold(self.user, self._socket.buffered_bytes, self._drop)

    def _drop(self) -> None:
        """Drop the peer because too many bytes wait for it."""
        self._on_stall()
        self.abort()

    def _on_writable_change(self, is_writable: bool) -> None:
        self._is_peer_slow = not is_writable
        self._hold_buffer()
        if is_writable:
            # The peer has accepted bytes, so the next check must not find a stall.
            self._buffered_at_last_check = math.inf
            self._make_waiting_calls()
        elif self._stall_timer is None:
            self._start_stall_timer(self._send_timeout)

    def _make_waiting_calls(self) -> None:
        for _ in range(len(self._waiting_calls)):
            if self._is_peer_slow or not self._waiting_calls:
                return
            call, _ = self._waiting_calls.popitem(last=False)
            call()

    def _start_stall_timer(self, seconds: float) -> None:
        self._buffered_at_last_check = self._socket.buffered_bytes
        self._check_seconds = min(seconds, self._sync_timeout)
        self._stall_timer = self._loop.call_later(self._check_seconds, self._check_for_stall)

    def _check_for_stall(self) -> None:
        # The timer runs only while the peer is slow.
        self._stall_timer = None
        if self._is_closed:
            return
        behind_since = self._queue_budget.behind_since
        if not self._is_peer_slow and behind_since is None:
            return
        is_late = behind_since is not None and self._loop.time() - behind_since >= self._sync_timeout
        accepted = self._buffered_at_last_check - self._socket.buffered_bytes
        is_stalled = accepted <= 0 or accepted < self._min_bytes_per_second * self._check_seconds
        if is_late or (self._is_peer_slow and is_stalled):
            self._on_stall()
        self._start_stall_timer(self._send_timeout)

    async def accept(self, subprotocol: str | None) -> None:
        """Complete the handshake. Raises PeerGone."""
        try:
            await self._websocket.accept(subprotocol)
        except OSError:
            raise PeerGone from None

    async def close(self, close: Close | None, *, timeout_seconds: float) -> None:
        """Send the close frame after the collected frames, before all frames that wait, and write nothing more.

        Args:
            close: The code and reason; None if the peer has closed already.
            timeout_seconds: A peer that does not accept the close frame in time is dropped without it.
        """
        self.write_collected()
        self._is_closed = True
        self._is_peer_slow = False
        self._make_waiting_calls()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        if close is None:
            return
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._websocket.close(close.code, close.reason)
        except TimeoutError:
            self.abort()
        except (WebSocketDisconnect, RuntimeError):
            return

    def abort(self) -> None:
        """Drop the connection without waiting for the peer to read anything."""
        self._socket.abort()
