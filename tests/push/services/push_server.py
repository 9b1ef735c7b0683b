"""An HTTP server on loopback that answers pushes as a test says, and keeps what arrived."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson
import trustme

from resolvers.push.push_service import PushMessage
from store.base.ids import ConversationId

MESSAGE = PushMessage(ConversationId("g_1"), "tag-of-g_1", 7, "Alice", "Hello, Bob! 🦊")
QUIET = PushMessage(ConversationId("g_1"), "tag-of-g_1", 3, is_quiet=True)


@dataclass(frozen=True)
class Received:
    """A request that arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]
Reply = bytes | Behaviour
Chooser = Callable[[Received], Reply]


def reply(status: int, body: bytes | str | Mapping[str, Any] = b"", /, **headers: str) -> bytes:
    """Return a whole HTTP answer. Names of headers have _ for -."""
    content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else orjson.dumps(body)
    lines = {"Content-Length": str(len(content))} | {name.replace("_", "-"): text for name, text in headers.items()}
    head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
    return f"HTTP/1.1 {status} Status\r\n{head}\r\n".encode() + content


async def hang(_writer: asyncio.StreamWriter) -> None:
    """Answer nothing."""
    await asyncio.sleep(3600)


async def reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection instead of an answer."""
    writer.transport.abort()


async def send_garbage(writer: asyncio.StreamWriter) -> None:
    """Send bytes that are not HTTP."""
    writer.write(b"\x00\xff SSH-2.0 hello\r\n\r\n" * 10)
    await writer.drain()
    writer.close()


async def send_endlessly(writer: asyncio.StreamWriter) -> None:
    """Send an answer of 10 MB, as far as anybody reads it."""
    writer.write(b"HTTP/1.1 500 Status\r\nContent-Length: 10000000\r\n\r\n")
    for _ in range(1_000):
        writer.write(b"x" * 10_000)
        await writer.drain()


async def send_headers_endlessly(writer: asyncio.StreamWriter) -> None:
    """Send headers, as far as anybody reads them."""
    writer.write(b"HTTP/1.1 201 Status\r\n")
    for number in range(100_000):
        writer.write(b"X-Header-%d: %s\r\n" % (number, b"x" * 1_000))
        await writer.drain()


@dataclass
class PushServer:
    """Answers with `reply`, or with the replies of `queue` first; `choose` goes before both."""

    port: int = 0
    reply: Reply = field(default_factory=lambda: reply(201))
    queue: list[Reply] = field(default_factory=list)
    choose: Chooser | None = None
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    open_now: int = 0
    most_open: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def last(self) -> Received:
        return self.received[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        self.writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    request = await _read(reader)
                    self.received.append(request)
                    chosen = self.choose(request) if self.choose else self.queue.pop(0) if self.queue else self.reply
                    if isinstance(chosen, bytes):
                        writer.write(chosen)
                        await writer.drain()
                    else:
                        await chosen(writer)
                        break
        finally:
            self.open_now -= 1
            self.writers.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, path, headers, body)


@asynccontextmanager
async def open_push_server(context: ssl.SSLContext | None = None) -> AsyncIterator[PushServer]:
    """Serve for the time of the block."""
    push_server = PushServer()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        # asyncio reports cancelled handlers as errors.
        with suppress(asyncio.CancelledError):
            await push_server.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    push_server.port = server.sockets[0].getsockname()[1]
    try:
        yield push_server
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@cache
def _authority() -> trustme.CA:
    return trustme.CA()


def server_context(*protocols: str) -> ssl.SSLContext:
    """Return the TLS of a server at 127.0.0.1 and localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _authority().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def client_context() -> ssl.SSLContext:
    """Return the TLS of a client that trusts these servers."""
    context = ssl.create_default_context()
    _authority().configure_trust(context)
    return context
