"""The one way out of a connection: frames in turn, one at a time, none kept, and none for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.websockets import WebSocket, WebSocketDisconnect

from subscriptions.close_codes import Close

ABORT_EXTENSION = "confab.abort"
"""Key in the ASGI scope's extensions for a function that drops the connection at once, if the server has one."""


class PeerGone(Exception):
    """There is nobody left to write to."""


class FrameWriter:
    """Writes frames in the order they were asked for.

    `write` returns when the server has taken the frame, and waits for as long as the peer doesn't read what
    came before. So whoever makes frames makes them no faster than they are read, and there is at most one frame
    in memory per task that waits.
    """

    def __init__(self, websocket: WebSocket, send_timeout: float, on_stall: Callable[[], None]) -> None:
        """`on_stall` is called when a frame was not taken within `send_timeout` seconds; who is called must end
        the connection."""
        self._websocket = websocket
        self._send_timeout = send_timeout
        self._on_stall = on_stall
        self._turn = asyncio.Lock()
        self._shut = False
        self._loop = asyncio.get_running_loop()
        self._writing_since: float | None = None
        self._watch: asyncio.TimerHandle | None = None

    async def write(self, frame: str, still_wanted: Callable[[], bool] = lambda: True) -> None:
        """Write `frame` when its turn comes, if it is `still_wanted` then. Raises PeerGone."""
        async with self._turn:
            if self._shut:
                raise PeerGone
            if not still_wanted():
                return
            self._writing_since = self._loop.time()
            if self._watch is None:
                self._watch = self._loop.call_later(self._send_timeout, self._check)
            try:
                await self._websocket.send_text(frame)
            except (WebSocketDisconnect, RuntimeError):
                # Either side has closed the socket: starlette says the one, or the server below it the other.
                raise PeerGone from None
            finally:
                self._writing_since = None

    def _check(self) -> None:
        # One timer for many frames: a timeout around each would cost more than the frame itself.
        self._watch = None
        if self._writing_since is None:
            return
        remaining = self._writing_since + self._send_timeout - self._loop.time()
        if remaining > 0:
            self._watch = self._loop.call_later(remaining, self._check)
        else:
            self._on_stall()

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
        if self._watch is not None:
            self._watch.cancel()
        if close is None:
            return
        try:
            async with asyncio.timeout(within):
                await self._websocket.close(close.code, close.reason)
        except TimeoutError:
            self._abort()
        except (WebSocketDisconnect, RuntimeError):
            return

    def _abort(self) -> None:
        abort = self._websocket.scope.get("extensions", {}).get(ABORT_EXTENSION)
        if abort is not None:
            abort()
