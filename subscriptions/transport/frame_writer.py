"""The one way out of a connection: frames in turn, bounded, and none for ever.

A frame is handed to the server's transport at once, unless the peer is behind: then whoever has frames waits. So at most one
transport buffer is in memory for a peer that doesn't read, and what the events it misses take (`subscriptions.mailboxes.Room`).
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.transport.close_codes import Close

SOCKET_EXTENSION = "confab.socket"
"""Key in the ASGI scope's extensions for the server's `Socket`."""


class Socket(Protocol):
    """What the server below offers beside ASGI: frames without a detour, and a way to let go of a peer that doesn't read."""

    @property
    def is_open(self) -> bool:
        """Whether frames still go out."""
        ...

    @property
    def waiting(self) -> int:
        """Bytes that the peer has not made room for."""
        ...

    def write(self, *payload: bytes) -> None:
        """Send one text message, of these parts. Never waits; to be called while it is open."""
        ...

    def write_both(self, first: bytes, second: bytes) -> None:
        """Send two text messages, at the price of one."""
        ...

    def on_flow(self, call: Callable[[bool], None]) -> None:
        """`call` is told when the peer is behind (False), when it has caught up, and when it has gone (True)."""
        ...

    def limit_messages(self, size: int) -> None:
        """Messages of the peer may have `size` bytes from now on; a longer one ends the connection with 1009."""
        ...

    def abort(self) -> None:
        """Drop the connection at once, with all that waits."""
        ...


def socket_of(websocket: WebSocket) -> Socket:
    """What the server offers for this socket. Raises KeyError on another server than `subscriptions.transport.uvicorn_protocol`."""
    socket: Socket = websocket.scope["extensions"][SOCKET_EXTENSION]
    return socket


class PeerGone(Exception):
    """There is nobody left to write to."""


class FrameWriter:
    """Writes frames in the order they were asked for, as fast as the peer reads them.

    A peer that takes nothing for `send_timeout` seconds is stalled; so is one that had events dropped for want of room, and
    `behind_timeout` seconds later still has some waiting.
    """

    def __init__(
        self,
        websocket: WebSocket,
        room: QueueBudget,
        send_timeout: float,
        behind_timeout: float,
        on_stall: Callable[[], None],
    ) -> None:
        """`on_stall` is called for a stalled peer, and called again if it doesn't end the connection."""
        self._websocket = websocket
        self._socket = socket_of(websocket)
        self._room = room
        self._send_timeout = send_timeout
        self._behind_timeout = behind_timeout
        self._on_stall = on_stall
        self._shut = False
        self._loop = asyncio.get_running_loop()
        self._behind = False
        self._turns: OrderedDict[Callable[[], None], None] = OrderedDict()
        self._watch: asyncio.TimerHandle | None = None
        self._waited: float = 0
        self._socket.on_flow(self._on_flow)

    @property
    def is_free(self) -> bool:
        """Whether a frame may be written now."""
        return not self._behind

    @property
    def is_shut(self) -> bool:
        """Whether nothing goes out any more."""
        return self._shut or not self._socket.is_open

    def put(self, *frame: bytes) -> None:
        """Write one frame now, of these parts. To be asked for by those whose turn it is; after the end it does nothing."""
        if not self._shut and self._socket.is_open:
            self._socket.write(*frame)

    def in_turn(self, call: Callable[[], None]) -> None:
        """Have `call` made when the peer has made room, after those who asked before. It is made at the end too."""
        self._turns[call] = None

    def without_turn(self, call: Callable[[], None]) -> None:
        """Have `call` not made after all. To be called by whoever has nothing to write any more: a peer that doesn't read could
        have any number of operations begin and end meanwhile."""
        self._turns.pop(call, None)

    async def write(
        self, frame: str | bytes, still_wanted: Callable[[], bool] = lambda: True, *, then: bytes | None = None
    ) -> None:
        """Write `frame` when there is room for it, and `then` behind it, if it is `still_wanted` then. Raises PeerGone."""
        while self._behind and not self.is_shut:
            turn = asyncio.Event()
            self.in_turn(turn.set)
            try:
                await turn.wait()
            finally:
                self.without_turn(turn.set)
        if self.is_shut:
            raise PeerGone
        if not still_wanted():
            return
        payload = frame.encode() if isinstance(frame, str) else frame
        if then is None:
            self._socket.write(payload)
        else:
            self._socket.write_both(payload, then)

    def _on_flow(self, free: bool) -> None:
        self._behind = not free
        if free:
            # Whatever waits when one looks next, the peer has taken something.
            self._waited = math.inf
            self._give_turns()
        elif self._watch is None:
            self._watch_from_now(self._send_timeout)

    def _give_turns(self) -> None:
        for _ in range(len(self._turns)):
            if self._behind or not self._turns:
                return
            call, _ = self._turns.popitem(last=False)
            call()

    def _watch_from_now(self, seconds: float) -> None:
        self._waited = self._socket.waiting
        self._watch = self._loop.call_later(min(seconds, self._behind_timeout), self._check)

    def _check(self) -> None:
        # A timer for as long as the peer is behind, none while it isn't.
        self._watch = None
        if self._shut:
            return
        since = self._room.behind_since
        if not self._behind and since is None:
            return
        is_late = since is not None and self._loop.time() - since >= self._behind_timeout
        if is_late or (self._behind and self._socket.waiting >= self._waited):
            self._on_stall()
        self._watch_from_now(self._send_timeout)

    async def accept(self, subprotocol: str | None) -> None:
        """Complete the handshake. Raises PeerGone."""
        try:
            await self._websocket.accept(subprotocol)
        except OSError:
            raise PeerGone from None

    async def close(self, close: Close | None, *, within: float) -> None:
        """Write nothing more, and say goodbye past all frames that wait. None: the peer has left already.

        A peer that doesn't make room for the close frame `within` these seconds is dropped without it.
        """
        self._shut = True
        self._behind = False
        self._give_turns()
        if self._watch is not None:
            self._watch.cancel()
        if close is None:
            return
        try:
            async with asyncio.timeout(within):
                await self._websocket.close(close.code, close.reason)
        except TimeoutError:
            self.drop()
        except (WebSocketDisconnect, RuntimeError):
            return

    def drop(self) -> None:
        """End the connection without waiting for the peer to read anything."""
        self._socket.abort()
