"""A load process that sends and receives the bytes of files over plain sockets, so that it costs little itself."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench.command_loop import run_command_loop

_PIECE = bytes(range(256)) * 1024
_READ_BYTES = 1 << 18

Answer = dict[str, Any]


class Transfers:
    """Commands for a LoadProcess."""

    async def upload(self, *, uploads: list[dict[str, Any]], size: int) -> Answer:
        """Send a body of `size` bytes to each upload, all at the same time."""
        began = time.perf_counter()
        statuses = await asyncio.gather(*(_send(upload, size) for upload in uploads))
        return {"seconds": time.perf_counter() - began, "statuses": statuses}

    async def download(self, *, urls: list[str]) -> Answer:
        """Receive all files at the same time."""
        began = time.perf_counter()
        received = await asyncio.gather(*(_receive(url) for url in urls))
        return {"seconds": time.perf_counter() - began, "received": received}


async def _send(upload: dict[str, Any], size: int) -> int:
    url = urlsplit(upload["url"])
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        headers = {"Host": url.netloc, "Content-Length": str(size), "Connection": "close"}
        headers |= {each["name"]: each["value"] for each in upload["headers"]}
        lines = [f"{upload['method']} {url.path}?{url.query} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for start in range(0, size, len(_PIECE)):
            writer.write(_PIECE[: size - start])
            await writer.drain()
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def _receive(address: str) -> int:
    """Return the number of bytes of a body."""
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=_READ_BYTES)
    try:
        writer.write(f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(head.decode())
        received = 0
        while piece := await reader.read(_READ_BYTES):
            received += len(piece)
        return received
    finally:
        writer.close()


if __name__ == "__main__":
    uvloop.run(run_command_loop(Transfers()))
