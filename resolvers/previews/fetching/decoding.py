"""Bodies of HTTP answers, decompressed with a limit."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from resolvers.web_requests.errors import FetchFailed, TooLarge

ACCEPTED = "gzip"
"""Encodings that requests ask for."""

_GZIP = ("gzip", "x-gzip")
_PIECE_BYTES = 65_536
_BYTES_PER_CHUNK = 64
_FREE_CHUNKS = 1000


async def decode_body(chunks: AsyncIterator[bytes], encoding: str, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the pieces of a body. Memory is bounded, whatever the body expands to.

    Raises FetchFailed for an encoding that was not asked for, and for a broken body. Raises TooLarge as soon as there
    are more than `max_bytes`; all bytes before have been yielded.

    Args:
        chunks: The body as received.
        encoding: Value of Content-Encoding.
        max_bytes: Longest decoded body.
    """
    encoding = encoding.strip().lower()
    if encoding not in ("", "identity", *_GZIP):
        raise FetchFailed(f"encoding {encoding[:20]}")
    pieces = _gunzip(chunks) if encoding in _GZIP else chunks
    decoded = 0
    async for piece in pieces:
        left = max_bytes - decoded
        decoded += len(piece)
        yield piece[:left]
        if decoded > max_bytes:
            raise TooLarge("the body is too long")


async def refuse_tiny_chunks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of a body. Raises FetchFailed if they are tiny, which would cost much CPU."""
    count = received = 0
    async for chunk in chunks:
        received += len(chunk)
        count += 1
        if count > _FREE_CHUNKS + received // _BYTES_PER_CHUNK:
            raise FetchFailed("the chunks are too small")
        yield chunk


async def _gunzip(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield decoded pieces of at most 64 KiB. What follows the end of the compressed body is ignored."""
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    async for chunk in chunks:
        is_full = True
        while (chunk or is_full) and not inflate.eof:
            try:
                piece = inflate.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise FetchFailed(f"compressed body: {error}") from error
            chunk, is_full = inflate.unconsumed_tail, len(piece) == _PIECE_BYTES
            if piece:
                yield piece
        if inflate.eof:
            return
    raise FetchFailed("the compressed body is not complete")
