"""Contents of blobs for tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

from store.files.blobs.base import BlobStore


def some_bytes(size: int) -> bytes:
    """Return bytes that differ at each place and are the same in each run."""
    return random.Random(size).randbytes(size)


async def in_parts(content: bytes, size: int = 64 * 1024) -> AsyncIterator[bytes]:
    """Yield bytes as a client sends them."""
    for start in range(0, len(content), size):
        await asyncio.sleep(0)
        yield content[start : start + size]


async def read_all(blobs: BlobStore, name: str, start: int = 0, end: int | None = None) -> bytes:
    """Return the bytes of a range."""
    return b"".join([part async for part in blobs.read(name, start, end)])


async def all_names(blobs: BlobStore, after: str = "") -> list[str]:
    """Return the names that a store lists."""
    return [name async for page in blobs.list_names(after) for name in page]
