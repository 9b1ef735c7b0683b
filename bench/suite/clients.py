"""Cheap clients: they write prepared bytes and only look for the end of the answer."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import cast

from bench.subscriber import Deliveries, Opening, Subscriber, client_frame

Taken = Callable[[bytes], None]
"""Receives an answer: the JSON of a GraphQL response; over a WebSocket inside its frame."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LOST = b'{"errors": "the connection was lost"}'
_FRESH_SECONDS = 2.0
"""No server closes a connection that was used within this time."""
_OPERATION = re.compile(rb'"id": ?"m(\d+)"')


class HttpClient(asyncio.Protocol):
    """One kept-alive connection of a user. One request at a time."""

    def __init__(self, port: int, authorization: str) -> None:
        self._port = port
        self._head = (
            f"POST /graphql HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {authorization}\r\n"
            "Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: "
        ).encode()
        self._buffer = b""
        self._wanted = 0
        self._body = 0
        self._taken: Taken | None = None
        self._transport: asyncio.Transport | None = None
        self._used = -_FRESH_SECONDS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's class is not a subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._used = -_FRESH_SECONDS
        self._finish(_LOST)

    async def open(self) -> None:
        """Connect if necessary: servers close connections that were idle for some seconds."""
        if time.monotonic() - self._used > _FRESH_SECONDS:
            self.close()
            await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._port)

    def ask(self, body: bytes, taken: Taken) -> None:
        """Post a body."""
        assert self._taken is None
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the connection was lost")
        self._taken, self._used = taken, time.monotonic()
        self._transport.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._wanted:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._buffer, 0, end + 2)
            if length is None:
                raise RuntimeError(f"no length: {self._buffer[:end]!r}")
            self._body = end + 4
            self._wanted = self._body + int(length[1])
        if len(self._buffer) >= self._wanted:
            answer, self._buffer, self._wanted = self._buffer[self._body : self._wanted], b"", 0
            self._finish(answer)

    def _finish(self, answer: bytes) -> None:
        taken, self._taken = self._taken, None
        if taken is not None:
            taken(answer)


class SocketClient(Subscriber):
    """A WebSocket of a user, also for queries and mutations. One at a time, each with its own id."""

    def __init__(self, opening: Opening, heard: Deliveries) -> None:
        super().__init__(opening, heard)
        self._asked = 0
        self._taken: Taken | None = None

    async def open(self) -> None:
        """Do nothing: a lost connection is a failure."""

    def ask(self, body: bytes, taken: Taken) -> None:
        """Subscribe to the operation of a body."""
        assert self._transport is not None and self._taken is None
        self._taken = taken
        self._asked += 1
        self._transport.write(client_frame(b'{"id":"m%d","type":"subscribe","payload":%b}' % (self._asked, body)))

    def _on_frame(self, opcode: int, payload: bytes) -> None:
        operation = _OPERATION.search(payload) if opcode == 0x1 else None
        if operation is None:
            super()._on_frame(opcode, payload)
        elif int(operation[1]) == self._asked and self._taken is not None:
            # Ignore later frames of an operation (its complete may arrive during the next one).
            taken, self._taken = self._taken, None
            taken(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        taken, self._taken = self._taken, None
        if taken is not None:
            taken(_LOST)
