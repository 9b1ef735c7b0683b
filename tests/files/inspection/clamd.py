"""A server that speaks as much of clamd's protocol as the tests need."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

EICAR = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$" + b"EICAR-STANDARD-ANTIVIRUS-TEST-FILE" + b"!$H+H*"
"""The test file of all scanners, which does nothing. In two parts, so that scanners accept this module."""


@dataclass
class FakeClamd:
    """Answers `answer`; without one it computes the answer, or stays silent."""

    url: str = ""
    answer: bytes | None = None
    is_silent: bool = False
    max_bytes: int = 1 << 30
    received: list[bytes] = field(default_factory=list)

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one command."""
        assert await reader.readexactly(10) == b"zINSTREAM\0"
        content = b""
        while length := int.from_bytes(await reader.readexactly(4), "big"):
            content += await reader.readexactly(length)
            if len(content) > self.max_bytes:
                break
        self.received.append(content)
        if len(content) > self.max_bytes:
            writer.write(b"INSTREAM size limit exceeded. ERROR\0")
        elif self.answer is not None:
            writer.write(self.answer)
        elif not self.is_silent:
            writer.write(b"stream: Eicar-Test-Signature FOUND\0" if EICAR in content else b"stream: OK\0")
        else:
            await reader.read()
        writer.close()


@asynccontextmanager
async def running_clamd() -> AsyncIterator[FakeClamd]:
    """Run the server for the duration of the block."""
    clamd = FakeClamd()
    server = await asyncio.start_server(clamd.serve, "127.0.0.1", 0)
    clamd.url = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield clamd
    finally:
        server.close()
