"""uvicorn's HTTP protocol, able to let go of a client that has stopped reading an event stream.

Use it as `uvicorn.Config(http=AbortingHTTPProtocol)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

ABORT_EXTENSION = "confab.abort"
"""Key in the ASGI scope's extensions for a function that drops the connection at once, if the server has one."""


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
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
