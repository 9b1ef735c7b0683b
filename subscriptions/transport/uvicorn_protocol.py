"""uvicorn's WebSocket protocol, able to let go of a peer that has stopped reading.

As it comes, every way to end a connection waits until the peer has read what was written: one that doesn't keeps
its buffers for as long as TCP believes in it, and holds up the server's shutdown. Use it as
`uvicorn.Config(ws=AbortingWebSocketProtocol, ws_ping_interval=None)`: uvicorn's own pings close with 1011, after
which clients don't come back, and `TransportWS` has pings of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from subscriptions.transport.writing import ABORT_EXTENSION


class AbortingWebSocketProtocol(WebSocketsSansIOProtocol):
    """Offers ABORT_EXTENSION to the application, and aborts `close_timeout` seconds after the application has ended
    whatever the peer has not read by then."""

    _abort_timer: asyncio.TimerHandle | None = None

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            # Typed as a dict of dicts by ASGI; an extension within the process can be what it likes.
            extensions = cast(dict[str, Callable[[], None]], self.scope["extensions"])
            extensions[ABORT_EXTENSION] = self.transport.abort

    async def run_asgi(self) -> None:
        await super().run_asgi()
        if not self.disconnected:
            self._abort_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
