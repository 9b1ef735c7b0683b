"""An HTTP server on loopback that takes events of webhooks, and does what a test wants with them."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from standardwebhooks import Webhook

from tests.waiting import TIMEOUT_SECONDS

Reply = int | bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
"""A status, a whole answer, or a function that writes one."""


@dataclass(frozen=True)
class Received:
    """A request. `answered`: the status of the answer, if the test gave one."""

    headers: dict[str, str]
    body: bytes
    answered: int | None

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def payload(self) -> Any:
        return orjson.loads(self.body)

    @property
    def type(self) -> str:
        return str(self.payload["type"])

    @property
    def data(self) -> Any:
        return self.payload["data"]

    def verify(self, secret: str) -> Any:
        """Return the payload if the signature is right. Raises WebhookVerificationError."""
        return Webhook(secret).verify(self.body, self.headers)


@dataclass
class Endpoint:
    """The requests in the order in which they came, and the answers that they get."""

    port: int
    received: list[Received] = field(default_factory=list)
    decide: Callable[[Received], Reply] = lambda _: 204
    """Returns how to answer a request."""
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def taken(self) -> list[Received]:
        """The events that were answered with 2xx."""
        return [each for each in self.received if each.answered is not None and 200 <= each.answered < 300]

    def texts(self) -> list[str]:
        """Return the texts of the messages that were taken, without repetitions of an event."""
        return [each.data["message"]["content"] for each in first_of_each(self.taken)]

    async def wait_for(self, count: int, within: float = TIMEOUT_SECONDS) -> Sequence[Received]:
        """Wait until this many different events were taken, and return them."""
        async with asyncio.timeout(within):
            while len(first_of_each(self.taken)) < count:  # noqa: ASYNC110  # the server has no events for tests
                await asyncio.sleep(0.005)
        return first_of_each(self.taken)

    async def wait_for_attempts(self, count: int, within: float = TIMEOUT_SECONDS) -> Sequence[Received]:
        """Wait until this many requests have come."""
        async with asyncio.timeout(within):
            while len(self.received) < count:  # noqa: ASYNC110  # the server has no events for tests
                await asyncio.sleep(0.005)
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
        headers = {name.lower(): value for name, _, value in lines}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Received(headers, body, None)
        reply = self.decide(request)
        status = reply if isinstance(reply, int) else None
        if isinstance(reply, bytes) and reply.startswith(b"HTTP/"):
            status = int(reply.split()[1])
        self.received.append(Received(headers, body, status))
        if isinstance(reply, int):
            writer.write(answer(reply))
            await writer.drain()
            return True
        if isinstance(reply, bytes):
            writer.write(reply)
            await writer.drain()
            return True
        await reply(writer)
        return False


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """Return a whole answer."""
    lines = {"Content-Length": str(len(body))} | {name.replace("_", "-"): value for name, value in headers.items()}
    if status == 204:
        del lines["Content-Length"]
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Status\r\n{head}\r\n".encode() + body


async def hang(writer: asyncio.StreamWriter) -> None:
    """Answer nothing, until the other side closes the connection."""
    await writer.wait_closed()


async def reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def first_of_each(received: Sequence[Received]) -> list[Received]:
    """Return requests without repetitions of the same event."""
    return list({each.event_id: each for each in reversed(received)}.values())[::-1]


@asynccontextmanager
async def open_endpoint(decide: Callable[[Received], Reply] | None = None) -> AsyncIterator[Endpoint]:
    """Listen on loopback while the block runs."""
    listening = socket.create_server(("127.0.0.1", 0))
    endpoint = Endpoint(listening.getsockname()[1])
    if decide is not None:
        endpoint.decide = decide
    connections: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(endpoint.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(accept, sock=listening)
    try:
        yield endpoint
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()
