"""uvicorn's HTTP protocol, able to let go of a client that has stopped reading an event stream, and to send an answer in one
piece.

Use it as `uvicorn.Config(http=AbortingHTTPProtocol)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

ABORT_EXTENSION = "confab.abort"
"""Key in the ASGI scope's extensions for a function that drops the connection at once, if the server has one."""

DIRECT_RESPONSE_EXTENSION = "confab.answer"
"""Key in the ASGI scope's extensions for a function that sends a whole response in place of ASGI's messages, if the server has
one: status, header lines (content-length among them), body. It answers False, and has sent nothing, where the client is to
be waited for."""

SendResponse = Callable[[int, bytes, bytes], bool]

HEAD_BYTES = 65_536
"""What a request may have beside its body: address and headers, and as much again for each eighth of that in the body, which may
come in small chunks. The parser itself takes whatever comes."""

HEAD_SECONDS = 10.0
"""For the head of a request, once it has begun."""

_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class AbortingHTTPProtocol(HttpToolsProtocol):
    """Offers ABORT_EXTENSION to the application: as it comes, a response can only be ended by waiting for its reader.

    It takes no more of a request's head than HEAD_BYTES, or HEAD_SECONDS. And it tells the application of a connection that was lost, even where the client had sent the next request already:
    uvicorn tells only the one that was sent last, and the stream before it would go on for nobody.
    """

    _answering: RequestResponseCycle | None = None
    _in_head = False
    _has_begun = False
    _received = 0
    _body = 0
    _head_ends: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._has_begun = False
        super().data_received(data)
        if self._has_begun:
            # What came before it in these data was others'.
            self._received = self._body = 0
        else:
            self._received += len(data)
            if self._received - self._body > HEAD_BYTES + 8 * self._body and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self.transport.close()
        if self._in_head and self._head_ends is None:
            self._head_ends = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _end_head(self) -> None:
        self._in_head = False
        self._forget_head()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def _forget_head(self) -> None:
        if self._head_ends is not None:
            self._head_ends.cancel()
            self._head_ends = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = self._has_begun = True
        # Typed as a dict of dicts by ASGI; an extension within the process can be what it likes.
        scope = cast(dict[str, Any], self.scope)
        extensions: dict[str, Callable[[], None]] = {ABORT_EXTENSION: self.transport.abort}
        scope["extensions"] = extensions

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        cycle.scope["extensions"][DIRECT_RESPONSE_EXTENSION] = partial(self._answer, cycle)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def _answer(self, cycle: RequestResponseCycle, status: int, headers: bytes, body: bytes) -> bool:
        """What the cycle does with ASGI's two messages, which are two writes to the socket."""
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
        self._forget_head()
        super().connection_lost(exc)
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
