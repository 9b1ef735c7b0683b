"""uvicorn's HTTP protocol, able to let go of a client that has stopped reading an event stream, and to send an answer in one
piece.

Use it as `uvicorn.Config(http=AbortingHTTPProtocol)`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

ABORT_EXTENSION = "confab.abort"
"""Key in the ASGI scope's extensions for a function that drops the connection at once, if the server has one."""

ANSWER_EXTENSION = "confab.answer"
"""Key in the ASGI scope's extensions for a function that sends a whole response in place of ASGI's messages, if the server has
one: status, header lines (content-length among them), body. It answers False, and has sent nothing, where the client is to
be waited for."""

Answering = Callable[[int, bytes, bytes], bool]


class AbortingHTTPProtocol(HttpToolsProtocol):
    """Offers ABORT_EXTENSION to the application: as it comes, a response can only be ended by waiting for its reader.

    And it tells the application of a connection that was lost, even where the client had sent the next request already:
    uvicorn tells only the one that was sent last, and the stream before it would go on for nobody.
    """

    _answering: RequestResponseCycle | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # Typed as a dict of dicts by ASGI; an extension within the process can be what it likes.
        scope = cast(dict[str, Any], self.scope)
        extensions: dict[str, Callable[[], None]] = {ABORT_EXTENSION: self.transport.abort}
        scope["extensions"] = extensions

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        cycle.scope["extensions"][ANSWER_EXTENSION] = partial(self._answer, cycle)  # type: ignore[assignment]
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
        super().connection_lost(exc)
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
