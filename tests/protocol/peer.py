"""A client of graphql-transport-ws."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from subscriptions.transport.engine import Json
from tests.protocol.serving import PATIENCE


def open_socket(url: str, subprotocols: list[str] | None = None, **options: Any) -> connect:
    """Return a client's socket as a context manager, by default for the modern subprotocol.

    It sends nothing by itself.
    """
    return connect(
        url,
        subprotocols=(["graphql-transport-ws"] if subprotocols is None else subprotocols) or None,
        ping_interval=None,
        compression=None,
        max_size=None,
        close_timeout=1,
        **options,
    )


class Peer:
    """A client that sends only what the test sends."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    @property
    def subprotocol(self) -> str | None:
        return self.socket.subprotocol

    async def send(self, frame: Json | str | bytes) -> None:
        await self.socket.send(orjson.dumps(frame).decode() if isinstance(frame, dict) else frame)

    async def receive(self) -> Json:
        async with asyncio.timeout(PATIENCE):
            message = orjson.loads(await self.socket.recv())
        assert isinstance(message, dict)
        return message

    async def nothing_comes(self, seconds: float = 0.15) -> bool:
        """Return whether the server stays silent for that many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.socket.recv()
        except TimeoutError:
            return True
        return False

    async def init(self, payload: Json | None = None) -> None:
        await self.send({"type": "connection_init", "payload": payload})
        assert await self.receive() == {"type": "connection_ack"}

    async def subscribe(self, id: str, query: str, **payload: Any) -> None:
        await self.send({"id": id, "type": "subscribe", "payload": {"query": query, **payload}})

    async def complete(self, id: str) -> None:
        await self.send({"id": id, "type": "complete"})

    async def is_alive(self) -> bool:
        """Return whether the server answers a ping, with no other frame before the answer."""
        await self.send({"type": "ping"})
        return await self.receive() == {"type": "pong"}

    async def closed(self) -> tuple[int, str]:
        """Return the close code and the reason of the server. No other frame may come before."""
        async with asyncio.timeout(PATIENCE):
            try:
                frame = await self.socket.recv()
            except ConnectionClosed as end:
                return (end.rcvd.code, end.rcvd.reason) if end.rcvd is not None else (1006, "")
        raise AssertionError(f"a frame instead of a close: {frame!r}")


@asynccontextmanager
async def open_admitted_socket(url: str, **options: Any) -> AsyncIterator[Peer]:
    """Open a socket. If the server refuses it because its event loop is late, try again, as clients do."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                socket = await open_socket(url, **options)
                break
            except InvalidStatus as refused:
                if refused.response.status_code != 503:
                    raise
            await asyncio.sleep(0.1)
    async with socket:
        yield Peer(socket)
