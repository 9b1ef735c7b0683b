"""How uvicorn ends for us: clients are seen off first, and nobody is left waiting.

As it comes, uvicorn closes all WebSockets at once when told to stop, before the application hears of it. Its
server asks each connection to shut down, and waits; so it is connections that wait for the application here, which
works in one process and in several. For `uvicorn.Config(http=HttpProtocol, ws=WebSocketProtocol)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.supervisors import Multiprocess

from server.http.overload_responses import REFUSED_PATH, refusal
from server.http.uvicorn_protocol import AbortingHTTPProtocol
from server.overload.load_shedding import HANDSHAKE_REFUSED, LOAD_SHEDDING_STATE, LoadShedding
from server.process.graceful_shutdown import SHUTDOWN_STATE
from subscriptions.transport.uvicorn_protocol import DirectWebSocketProtocol

FIRST_REQUEST_SECONDS = 10.0
"""For a client to send the head of its first request."""

UNDER_WAY_SECONDS = 0.25
"""For a request that a client sent before it could know that the server stops."""

_LAST_SECONDS = 2.0
"""For a peer that was seen off to read the last of it."""


class _Refused:
    """In place of a request's cycle, for all that are refused."""

    response_complete = True
    disconnected = False
    message_event = asyncio.Event()


_REFUSED = _Refused()


def _after_drain(app_state: Mapping[str, Any], call: Callable[[], None]) -> None:
    stopping = app_state.get(SHUTDOWN_STATE)
    if stopping is None:
        call()
    else:
        stopping.begin().add_done_callback(lambda _: call())


class HttpProtocol(AbortingHTTPProtocol):
    """Serves what comes over open connections until the application has drained, and a moment longer: readiness is
    asked there too, and a request may be under way. Each of those answers sends the client elsewhere with its next
    request. Ends connections on which no request comes."""

    _leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST_SECONDS, self._end_if_mute)

    def on_headers_complete(self) -> None:
        shedding: LoadShedding | None = self.app_state.get(LOAD_SHEDDING_STATE)
        if shedding is not None and shedding.is_full and self._refuse(shedding):
            self._end_head()
            return
        super().on_headers_complete()

    def _refuse(self, shedding: LoadShedding) -> bool:
        """Answers a request before anything is made for it. False: not one to be refused here."""
        if self.parser.get_method() == b"HEAD":
            return False
        is_next = not self.pipeline and (self.cycle is None or self.cycle.response_complete)
        if not (is_next and not self._leaving and self.url.partition(b"?")[0] == REFUSED_PATH):
            return False
        if (
            self.parser.should_upgrade()
            or self.expect_100_continue
            or any(name == b"origin" for name, _ in self.headers)
        ):
            return False
        shedding.shed.operations += 1
        stays = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        defaults = b"".join(b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        self.transport.write(refusal({"headers": self.headers}, defaults, stays=stays))
        # What is still to come of it is passed over.
        self.cycle = cast(RequestResponseCycle, _REFUSED)
        if stays:
            self.on_response_complete()
        else:
            self.transport.close()
        return True

    def handle_websocket_upgrade(self) -> None:
        shedding = self.app_state.get(LOAD_SHEDDING_STATE)
        if shedding is not None and shedding.refuse_connection():
            self.transport.write(HANDSHAKE_REFUSED)
            self.transport.close()
        else:
            super().handle_websocket_upgrade()

    def _end_if_mute(self) -> None:
        # Not among the connections: ended, or a WebSocket by now.
        if self in self.connections and self.cycle is None:
            self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # What the client has sent behind this request is still to be answered.
        if self._leaving and not self.pipeline:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    def shutdown(self) -> None:
        self._leaving = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        _after_drain(self.app_state, self._end_soon)

    def _end_soon(self) -> None:
        self.loop.call_later(UNDER_WAY_SECONDS, super().shutdown)


class WebSocketProtocol(DirectWebSocketProtocol):
    """Leaves the close frame to the application, and drops who doesn't go."""

    def shutdown(self) -> None:
        _after_drain(self.app_state, self._end)

    def _end(self) -> None:
        if self.disconnected:
            return
        if not self.transport.is_closing():
            super().shutdown()
        self.loop.call_later(_LAST_SECONDS, self.transport.abort)


class Supervisor(Multiprocess):
    """Several worker processes on one socket."""

    def terminate_all(self) -> None:
        # Held open here, it would take connections that no worker answers any more.
        for sock in self.sockets:
            sock.close()
        super().terminate_all()
