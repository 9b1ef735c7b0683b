"""uvicorn protocols that let the application drain its connections before uvicorn closes them.

By default uvicorn closes all WebSockets at once when it stops, before it notifies the application. It asks each
connection to shut down, and waits for it. So here the connections wait for the application, which works for one process
and for several. Use as `uvicorn.Config(http=HttpProtocol, ws=WebSocketProtocol)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from server.http.overload_responses import REFUSED_PATH, raw_overload_response
from server.http.uvicorn_protocol import AbortingHTTPProtocol
from server.overload.load_shedding import HANDSHAKE_REFUSED, LOAD_SHEDDING_STATE, LoadShedding
from server.process.graceful_shutdown import SHUTDOWN_STATE
from subscriptions.transport.uvicorn_protocol import DirectWebSocketProtocol

IN_FLIGHT_SECONDS = 0.25
"""Time for requests that clients sent before they could know that the server stops."""

_CLOSE_SECONDS = 2.0
"""Time limit for a client to complete the closing handshake."""


class _RefusedCycle:
    """Stands in for the cycle of every refused request."""

    response_complete = True
    disconnected = False
    message_event = asyncio.Event()


_REFUSED_CYCLE = _RefusedCycle()


def _after_drain(app_state: Mapping[str, Any], call: Callable[[], None]) -> None:
    shutdown = app_state.get(SHUTDOWN_STATE)
    if shutdown is None:
        call()
    else:
        shutdown.begin().add_done_callback(lambda _: call())


class HttpProtocol(AbortingHTTPProtocol):
    """Answers requests on open connections until the application has drained, and IN_FLIGHT_SECONDS longer.

    Readiness checks use these connections too, and requests may be in flight. Each response then closes its connection,
    so that the client's next request goes to another server.
    """

    _stopping = False

    def on_headers_complete(self) -> None:
        """Refuse the request while the process is overloaded."""
        load_shedding: LoadShedding | None = self.app_state.get(LOAD_SHEDDING_STATE)
        if load_shedding is not None and load_shedding.is_full and self._refuse(load_shedding):
            self._end_head()
            return
        super().on_headers_complete()

    def _refuse(self, load_shedding: LoadShedding) -> bool:
        """Refuse a request before anything is allocated for it. Returns False if the application has to handle it."""
        if self.parser.get_method() == b"HEAD":
            return False
        is_next = not self.pipeline and (self.cycle is None or self.cycle.response_complete)
        if not (is_next and not self._stopping and self.url.partition(b"?")[0] == REFUSED_PATH):
            return False
        if (
            self.parser.should_upgrade()
            or self.expect_100_continue
            or any(name == b"origin" for name, _ in self.headers)
        ):
            return False
        load_shedding.refused.operations += 1
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        default_headers = b"".join(b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        self.transport.write(raw_overload_response({"headers": self.headers}, default_headers, keep_alive=keep_alive))
        # The rest of the request is discarded.
        self.cycle = cast(RequestResponseCycle, _REFUSED_CYCLE)
        if keep_alive:
            self.on_response_complete()
        else:
            self._close()
        return True

    def handle_websocket_upgrade(self) -> None:
        """Refuse the handshake while the process is overloaded."""
        load_shedding = self.app_state.get(LOAD_SHEDDING_STATE)
        if load_shedding is not None and load_shedding.refuse_connection():
            self.transport.write(HANDSHAKE_REFUSED)
            self._close()
        else:
            super().handle_websocket_upgrade()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Pipelined requests still have to be answered.
        if self._stopping and not self.pipeline:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    def shutdown(self) -> None:
        """Close the connection after the application has drained."""
        self._stopping = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        _after_drain(self.app_state, self._shut_down_soon)

    def _shut_down_soon(self) -> None:
        self.loop.call_later(IN_FLIGHT_SECONDS, super().shutdown)


class WebSocketProtocol(DirectWebSocketProtocol):
    """Lets the application send the close frame, and drops clients that do not close."""

    def shutdown(self) -> None:
        """Close the connection after the application has drained."""
        _after_drain(self.app_state, self._close)

    def _close(self) -> None:
        if self.disconnected:
            return
        if not self.transport.is_closing():
            super().shutdown()
        self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)
