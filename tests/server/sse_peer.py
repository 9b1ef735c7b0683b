"""A client of event streams for ASGI applications. The transport of httpx would wait for the end of the response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

PATIENCE_SECONDS = 30.0

Event = tuple[str, Any]
"""Name and data of an event."""


class SSEPeer:
    """A request and the received part of its response. The client reads everything until `stall` is called."""

    def __init__(
        self,
        app: Any,
        body: Any = None,
        *,
        method: str | None = None,
        parameters: dict[str, str] | None = None,
        extensions: dict[str, Any] | None = None,
        **headers: str,
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.over = False
        """True if the response has ended properly."""
        self._body = b"" if body is None else json.dumps(body).encode()
        self._asked = body is None
        self._read = 0
        self._moved = asyncio.Event()
        self._gone = asyncio.Event()
        self._takes = asyncio.Event()
        self._takes.set()
        sent = {"content-type": "application/json", "accept": "text/event-stream"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        self._scope = {
            "type": "http",
            "method": method or ("GET" if body is None else "POST"),
            "path": "/graphql",
            "query_string": urlencode(parameters or {}).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "extensions": extensions or {},
        }
        self.task = asyncio.create_task(app(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self._takes.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.chunks.append(message["body"])
            self.over = not message.get("more_body", False)
        self._moved.set()

    def take_nothing(self) -> None:
        """Stop reading, but stay connected."""
        self._takes.clear()

    def leave(self) -> None:
        """Disconnect."""
        self._gone.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                self._moved.clear()
                await self._moved.wait()

    async def ended(self) -> None:
        """Wait until the application has finished the request."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait([self.task])
        self.task.result()

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def events(self) -> list[Event]:
        """All received events without comments."""
        blocks = self.body.decode().split("\n\n")[:-1]
        return [_event(block) for block in blocks if not block.startswith(":")]

    async def next(self) -> Event:
        """Return the first unread event."""
        await self.until(lambda: len(self.events) > self._read)
        self._read += 1
        return self.events[self._read - 1]


def _event(block: str) -> Event:
    fields = dict(line.split(":", 1) for line in block.split("\n"))
    assert set(fields) == {"event", "data"}
    data = fields["data"].strip()
    return fields["event"].strip(), json.loads(data) if data else None
