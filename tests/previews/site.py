"""A web server on loopback that answers what a test gives it, byte by byte."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_network

from resolvers.previews.fetching.fetcher import Fetcher
from resolvers.web_requests.addresses import AddressRules

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def answer(body: bytes | str, kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole HTTP answer."""
    content = body.encode() if isinstance(body, str) else body
    lines = {"Content-Type": kind, "Content-Length": str(len(content))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


def redirect(location: str) -> bytes:
    return answer("", status="302 Found", Location=location)


@dataclass
class Site:
    """Answers by path, and what arrived: connections and requests."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    connections: int = 0
    requests: list[str] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "site.example", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [request.split()[1] for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(request)
            found = self.answers.get(request.split()[1], answer("", status="404 Not Found"))
            if isinstance(found, bytes):
                writer.write(found)
                await writer.drain()
            else:
                await found(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def open_site(context: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """Listen on all addresses of loopback, IPv6 included, while the block runs."""
    listening = socket.create_server(("127.0.0.1", 0))
    site = Site(listening.getsockname()[1])
    sockets = [listening]
    if socket.has_ipv6:
        with suppress(OSError):
            sockets.append(socket.create_server(("::1", site.port), family=socket.AF_INET6))
    servers = [await asyncio.start_server(site.serve, sock=one, ssl=context) for one in sockets]
    try:
        yield site
    finally:
        for server in servers:
            server.close()


class Names:
    """A resolver that knows numbers in all forms, and the names of a test. Each lookup takes the next result."""

    def __init__(self, known: Mapping[str, Sequence[Sequence[str]]] | None = None) -> None:
        self.known = {name: list(results) for name, results in (known or {}).items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host in self.known:
            results = self.known[host]
            return results.pop(0) if len(results) > 1 else results[0]
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(address[0]) for *_, address in found]


async def take_no_turn(_host: str) -> None:
    """Let every request through at once."""


def fetcher_for(
    site: Site, names: Names | None = None, *, allowed: bool = True, context: ssl.SSLContext | None = None
) -> Fetcher:
    """Return a fetcher that may connect to the port of a site; on loopback only if `allowed`."""
    rules = AddressRules(LOOPBACK if allowed else (), frozenset({80, 443, site.port}))
    known = names or Names({"site.example": [["127.0.0.1"]]})
    return Fetcher(rules, known.resolve, take_no_turn, "test agent", context)


def png(width: int, height: int) -> bytes:
    """Return a PNG of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x33\x66\x99" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
