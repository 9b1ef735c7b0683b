"""Cuts streams of bytes into pieces of one size."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable


async def cut(content: AsyncIterable[bytes], size: int) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a stream in pieces of `size` bytes. The last piece may be shorter, and none is empty."""
    waiting = bytearray()
    async for part in content:
        start = 0
        while len(waiting) + len(part) - start >= size:
            end = start + size - len(waiting)
            waiting += memoryview(part)[start:end]
            start = end
            piece = bytes(waiting)
            waiting.clear()
            yield piece
        waiting += memoryview(part)[start:]
    if waiting:
        yield bytes(waiting)
