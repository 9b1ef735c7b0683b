"""Blobs that are sent to S3 in parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from store.files.blobs.s3 import S3Blobs
from store.files.blobs.s3_multipart import MultipartUploads
from store.files.blobs.s3_signing import S3Options
from tests.files.blobs.contents import in_parts, read_all, some_bytes

# S3 takes no smaller parts, but the last one.
PART = 5 * 1024 * 1024
NAME = "1/long-x"


def in_small_parts(s3: S3Blobs, options: S3Options) -> MultipartUploads:
    uploads = MultipartUploads(options, s3._send, PART)
    s3._in_parts = uploads
    return uploads


async def open_uploads(options: S3Options) -> str:
    """Return the list of uploads that were not completed."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return (await client.get(f"{options.address()}?uploads=")).text


@pytest.mark.parametrize("size", [PART - 1, PART, 2 * PART + 1])
async def test_parts_make_one_blob(s3: S3Blobs, s3_options: S3Options, size: int) -> None:
    in_small_parts(s3, s3_options)
    written = await s3.write_long(NAME, in_parts(some_bytes(size)))
    assert written.size == size
    assert await read_all(s3, NAME) == some_bytes(size)
    assert "long-x" not in await open_uploads(s3_options)


async def test_a_failed_upload_is_ended(s3: S3Blobs, s3_options: S3Options) -> None:
    in_small_parts(s3, s3_options)

    async def fails() -> AsyncIterator[bytes]:
        yield some_bytes(PART)
        raise ValueError

    with pytest.raises(ValueError):
        await s3.write_long(NAME, fails())
    assert "long-x" not in await open_uploads(s3_options)


async def test_deleting_a_blob_ends_the_upload_that_a_dead_server_left(
    s3: S3Blobs, s3_options: S3Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = in_small_parts(s3, s3_options)

    async def keep(name: str, upload: str) -> None:
        raise asyncio.CancelledError

    async def fails() -> AsyncIterator[bytes]:
        yield some_bytes(PART)
        raise ValueError

    with monkeypatch.context() as patch:
        patch.setattr(uploads, "_end", keep)
        with pytest.raises(asyncio.CancelledError):
            await s3.write_long(NAME, fails())
    assert "long-x" in await open_uploads(s3_options)
    await s3.delete([NAME])
    assert "long-x" not in await open_uploads(s3_options)
