"""uvicorn's HTTP protocol with two additions: aborting a connection, and sending a whole response in one write.

Use it as `uvicorn.Config(http=AbortingHTTPProtocol)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

ABORT_EXTENSION = "confab.abort"
"""Key in the ASGI scope's extensions: a function that drops the connection at once. Not present on other servers."""

DIRECT_RESPONSE_EXTENSION = "confab.answer"
"""Key in the ASGI scope's extensions: a function that sends a whole response without ASGI messages.

Its arguments are the status, the header lines (including content-length) and the body. It returns False, and sends
nothing, if it would have to wait for the client. Not present on other servers.
"""

SendResponse = Callable[[int, bytes, bytes], bool]

HEAD_BYTES = 65_536
"""Maximum size of a request apart from its body: request line, headers and chunk framing.

Each byte of the body allows eight more, because the body may come in small chunks. The parser itself has no limit.
"""

HEAD_SECONDS = 10.0
"""Time limit for receiving the head of a request after its first byte."""

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class AbortingHTTPProtocol(HttpToolsProtocol):
    """Offers ABORT_EXTENSION and DIRECT_RESPONSE_EXTENSION, and limits the head of requests.

    Without ABORT_EXTENSION a response can only be ended by waiting for its reader. A head is limited to HEAD_BYTES and
    HEAD_SECONDS. If a connection is lost, the request being answered is notified. uvicorn notifies only the newest
    request, so a stream before a pipelined request would continue without a reader.
    """

    _current_cycle: RequestResponseCycle | None = None
    _in_head = False
    _began_request = False
    _received = 0
    _body = 0
    _head_timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Parse data, and enforce the limits of the head."""
        self._began_request = False
        super().data_received(data)
        if self._began_request:
            # The data before the new request belonged to earlier requests.
            self._received = self._body = 0
        else:
            self._received += len(data)
            if self._received - self._body > HEAD_BYTES + 8 * self._body and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self.transport.close()
        if self._in_head and self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def on_headers_complete(self) -> None:
        """End the time limit of the head."""
        self._end_head()
        super().on_headers_complete()

    def _end_head(self) -> None:
        self._in_head = False
        self._cancel_head_timer()

    def on_body(self, body: bytes) -> None:
        """Count the bytes of the body."""
        self._body += len(body)
        super().on_body(body)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def on_message_begin(self) -> None:
        """Offer ABORT_EXTENSION to a new request."""
        super().on_message_begin()
        self._in_head = self._began_request = True
        # ASGI types extensions as a dict of dicts. These extensions are functions.
        scope = cast(dict[str, Any], self.scope)
        extensions: dict[str, Callable[[], None]] = {ABORT_EXTENSION: self.transport.abort}
        scope["extensions"] = extensions

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current_cycle = cycle
        cycle.scope["extensions"][DIRECT_RESPONSE_EXTENSION] = partial(self._send_response, cycle)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def _send_response(self, cycle: RequestResponseCycle, status: int, headers: bytes, body: bytes) -> bool:
        """Do the work of the cycle's two ASGI messages with one write to the socket instead of two."""
        if self.flow.write_paused or cycle.response_started:
            return False
        cycle.response_started = cycle.response_complete = True
        if cycle.disconnected:
            return True
        parts = [STATUS_LINE[status]]
        for name, value in cycle.default_headers:
            parts += (name, b": ", value, b"\r\n")
        parts += (headers, b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", body)
        self.transport.write(b"".join(parts))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request being answered."""
        self._cancel_head_timer()
        super().connection_lost(exc)
        if self._current_cycle is not None and not self._current_cycle.response_complete:
            self._current_cycle.disconnected = True
            self._current_cycle.message_event.set()
