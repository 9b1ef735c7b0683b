"""Names of the blobs of files, and writing blobs from temporary files (ADR 75)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from resolvers.base.errors import Unavailable
from store.base.clock import Clock
from store.base.ids import FileId
from store.files.blobs.base import BlobInfo, BlobStore
from store.files.file import FileState
from store.files.file_store import FileStore

DIRECT, THROUGH_CONFAB, INSPECTED, PICTURE = "direct", "upload", "content", "picture"
"""Kinds of blobs: sent to the blob store by the client, sent through Confab, made by the inspection, and fetched."""

_WRITE_SECONDS = 120
"""Time limit for writing one temporary file."""

_GRACE_SECONDS = 60
"""Added to the end of a write in the file's row: what a server does after the time limit of its write."""

_PIECE_BYTES = 256 * 1024


def blob_name(number: FileId, kind: str) -> str:
    """Return a new name of a blob of a file. kind: what is in it, for operators."""
    return f"{number}/{kind}-{secrets.token_hex(8)}"


def is_direct(name: str) -> bool:
    """Return whether clients write a blob themselves, and may write it again."""
    return f"/{DIRECT}-" in name


def write_end_ms(clock: Clock, seconds: int) -> int:
    """Return the time at which a write with this time limit has ended, for the file's row."""
    return clock.now_ms() + (seconds + _GRACE_SECONDS) * 1000


async def write_blob(
    files: FileStore, blobs: BlobStore, clock: Clock, number: FileId, name: str, path: Path, *states: FileState
) -> BlobInfo | None:
    """Store a temporary file as a new blob of a file. The file's row has the name before the first byte.

    Returns None if the file has none of the `states` (without any: UPLOADING), or had too many attempts. Raises
    Unavailable, Unreachable.
    """
    if not await files.begin_write(number, name, write_end_ms(clock, _WRITE_SECONDS), *states):
        return None
    try:
        async with asyncio.timeout(_WRITE_SECONDS), aclosing(_pieces(path)) as pieces:
            return await blobs.write(name, pieces)
    except TimeoutError:
        raise Unavailable("the file could not be stored in time; please try again") from None


async def _pieces(path: Path) -> AsyncGenerator[bytes, None]:
    with path.open("rb") as source:
        while piece := await asyncio.to_thread(source.read, _PIECE_BYTES):
            yield piece
