"""Receives the bytes of one upload: counts them, computes their checksum, and stores them while they arrive."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress

from resolvers.base.errors import FileTooLarge, InvalidInput, NotFound
from resolvers.files.blob_writing import THROUGH_CONFAB, blob_name, write_end_ms
from server.files.body_pace import SLOWEST_BYTES_PER_SECOND, expect_progress
from server.http.request import BadRequest
from store.base.errors import StoreError
from store.files.file import File, FileState
from store.store import Store

_LEAST_SECONDS = 60


def seconds_for(size: int) -> int:
    """Return the time limit of a body of this length."""
    return _LEAST_SECONDS + size // SLOWEST_BYTES_PER_SECOND


def check_announced(file: File, announced: int | None) -> None:
    """Raise FileTooLarge or InvalidInput for a Content-Length that is not the file's, before any byte is read."""
    if announced is not None and announced > file.size:
        raise _too_long(file)
    if announced is not None and announced < file.size:
        raise _too_short(file, announced)


async def receive_upload(
    store: Store, file: File, body: AsyncIterator[bytes], clock: Callable[[], float] = time.monotonic
) -> None:
    """Store a body as the upload of a file. It replaces an earlier one. `clock`: seconds, to measure the client's pace.

    Nothing is kept of a body that is refused or interrupted. If this server dies, the file's row knows the blob.

    Raises FileTooLarge, InvalidInput, NotFound, Unreachable, and BadRequest with status 408 or 409.
    """
    name, seconds = blob_name(file.id, THROUGH_CONFAB), seconds_for(file.size)
    if not await store.files.begin_write(file.id, name, write_end_ms(store.clock, seconds)):
        raise await _closed(store, file)
    try:
        async with asyncio.timeout(seconds), aclosing(_checked(file, expect_progress(body, clock))) as content:
            blob = await store.blobs.write(name, content)
    except TimeoutError:
        raise BadRequest("The body did not arrive in time. Send it again.", status=408) from None
    before = await store.files.finish_upload(file.id, blob)
    superfluous = name if before is None else before.uploaded.name if before.uploaded is not None else None
    if superfluous is not None:
        with suppress(StoreError):
            await store.blobs.delete([superfluous])
    if before is None:
        raise await _closed(store, file)


async def _checked(file: File, body: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield a body. Raises FileTooLarge as soon as it is too long, InvalidInput at its end if it is another one.

    A blob store keeps nothing if its source raises.
    """
    size, checksum = 0, hashlib.sha256()
    async for piece in body:
        size += len(piece)
        if size > file.size:
            raise _too_long(file)
        checksum.update(piece)
        yield piece
    if size < file.size:
        raise _too_short(file, size)
    if file.sha256 is not None and checksum.hexdigest() != file.sha256:
        raise InvalidInput("The bytes have another sha256 than announced. Send them again.", field="sha256")


async def _closed(store: Store, file: File) -> NotFound | BadRequest:
    """Return the error for an upload that accepts no bytes."""
    found = await store.files.find(file.id)
    if found is None or found.state is FileState.REMOVED:
        return no_upload()
    if found.state is FileState.UPLOADING:
        return BadRequest("The bytes were sent too often. Create another upload.", status=409)
    return already_complete()


def already_complete() -> BadRequest:
    """Return the error for bytes of an upload that is complete."""
    return BadRequest(
        "This upload is complete, and its bytes cannot be replaced. Call completeUpload to get the attachment.",
        status=409,
    )


def no_upload() -> NotFound:
    """Return the error for an upload that does not exist any more."""
    return NotFound("There is no such upload, or it was cancelled. Create another one.")


def _too_long(file: File) -> FileTooLarge:
    return FileTooLarge(
        f"The body is longer than sizeBytes, which is {file.size:,}. Send the file that was announced.",
        field="sizeBytes",
    )


def _too_short(file: File, size: int) -> InvalidInput:
    return InvalidInput(
        f"The body has {size:,} bytes, but sizeBytes is {file.size:,}. Send the whole file.", field="sizeBytes"
    )
