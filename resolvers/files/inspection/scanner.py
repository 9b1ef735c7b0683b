"""A virus scanner that speaks clamd's protocol."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

_log = structlog.get_logger()

_SECONDS = 5.0
"""Time limit of a scan for which a caller of the API waits."""

_BACKGROUND_SECONDS = 60.0
"""Time limit of a scan in the background."""

_PIECE_BYTES = 65_536
_MAX_ANSWER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Clean:
    """The scanner found nothing."""


@dataclass(frozen=True, slots=True)
class Infected:
    """The scanner found something. The name is its own."""

    name: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The scanner is unreachable, too slow, or refused the file: ask again later."""

    reason: str


class Scanner:
    """Sends files to a clamd (command INSTREAM of clamd(8)), each over a connection of its own.

    `url` is `tcp://host:port` or `unix:///path/of/socket`. The server's StreamMaxLength must allow the largest upload.
    """

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    async def scan(self, path: Path, seconds: float = _SECONDS) -> Clean | Infected | NoAnswer:
        """Return the scanner's answer about a file. `seconds` limits the time of everything."""
        async with aclosing(_read(path)) as pieces:
            return await self.scan_pieces(pieces, seconds)

    async def accepts(self, content: AsyncIterable[bytes]) -> bool | None:
        """Return whether the scanner finds nothing in a file; None without an answer within a minute."""
        found = await self.scan_pieces(content, _BACKGROUND_SECONDS)
        if isinstance(found, Infected):
            _log.warning("file_infected", found=found.name)
        return None if isinstance(found, NoAnswer) else isinstance(found, Clean)

    async def scan_pieces(
        self, content: AsyncIterable[bytes], seconds: float = _SECONDS
    ) -> Clean | Infected | NoAnswer:
        """Return the scanner's answer about a file that arrives in pieces. Its errors are raised."""
        writer: StreamWriter | None = None
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await self._connect()
                return _parse(await _exchange(reader, writer, content))
        except TimeoutError:
            return _no_answer(f"no answer within {seconds:g} s")
        except OSError as error:
            return _no_answer(f"{type(error).__name__}: {error}")
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _connect(self) -> tuple[StreamReader, StreamWriter]:
        if self._url.scheme == "unix":
            return await asyncio.open_unix_connection(self._url.path, limit=_MAX_ANSWER_BYTES)
        return await asyncio.open_connection(self._url.hostname, self._url.port, limit=_MAX_ANSWER_BYTES)


async def _exchange(reader: StreamReader, writer: StreamWriter, content: AsyncIterable[bytes]) -> bytes:
    # A scanner that refuses a file answers and hangs up while it is sent.
    with suppress(ConnectionError):
        writer.write(b"zINSTREAM\0")
        async for piece in content:
            if not piece:
                # A length of 0 would end the file.
                continue
            writer.write(len(piece).to_bytes(4, "big") + piece)
            await writer.drain()
        writer.write(bytes(4))
        await writer.drain()
    try:
        return await reader.readuntil(b"\0")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return b"(too long)"


def _parse(answer: bytes) -> Clean | Infected | NoAnswer:
    text = answer.partition(b"\0")[0].decode(errors="replace").strip()
    if text == "stream: OK":
        return Clean()
    if text.startswith("stream: ") and text.endswith(" FOUND"):
        return Infected(text.removeprefix("stream: ").removesuffix(" FOUND"))
    return _no_answer(f"the scanner answered {text[:200]!r}")


def _no_answer(reason: str) -> NoAnswer:
    _log.warning("scanner_without_answer", reason=reason)
    return NoAnswer(reason)


async def _read(path: Path) -> AsyncGenerator[bytes, None]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
