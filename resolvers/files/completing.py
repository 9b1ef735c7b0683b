"""Completing an upload: its bytes are compared with what was announced, inspected, and stored as the file's content.

The result is stored once, by one conditional update, however many servers complete the same upload. Every blob has its
name in the row before its first byte (ADR 75), so a server may die after any step.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound, Unavailable
from resolvers.base.rate_limits import check_rate
from resolvers.files.blob_writing import INSPECTED, blob_name, is_direct, write_blob
from resolvers.files.inspection.results import RejectedFile
from resolvers.files.inspection.scanner import Clean, Infected
from resolvers.files.uploading import find_own
from store.base.errors import StoreError
from store.base.ids import UserId
from store.files.blobs.base import BlobInfo, BlobMissing
from store.files.file import File, FileState

_log = structlog.get_logger()

_FIELD = "uploadId"
_ATTEMPTS = 5


async def complete_upload(app: Confab, user: UserId, upload: str) -> File:
    """Make a file READY, SCANNING or REJECTED by its bytes. Later calls return what the first one stored.

    Raises InvalidInput if the bytes were not sent, or are not those that were announced: nothing changes then. Raises
    NotFound, RateLimited, Unavailable, Unreachable.
    """
    check_rate(app.store.rate_limits.sends, user)
    for _ in range(_ATTEMPTS):
        file = await find_own(app, user, upload)
        if file is None:
            raise NotFound("there is no such upload, or it was cancelled; create another one", field=_FIELD)
        if file.state is not FileState.UPLOADING:
            return file
        uploaded = await _find_uploaded(app, file)
        done = await _complete(app, file, uploaded) if uploaded is not None else None
        if done is not None:
            _log.info("upload_completed", file=file.public_id, state=done.state.name, bytes=file.size)
            await _delete(app, done.superfluous)
            return done
    raise Unavailable("the upload changes too often; please try again")


async def _find_uploaded(app: Confab, file: File) -> BlobInfo | None:
    """Return the whole upload. None: it was replaced or completed at the same time.

    Raises InvalidInput if there is none.
    """
    if file.uploaded is not None and not is_direct(file.uploaded.name):
        return file.uploaded
    # The client sent it to the blob store itself, perhaps again after a refusal, or the server that received it
    # died just after its last byte.
    for name in reversed(file.blobs) if file.uploaded is None else (file.uploaded.name,):
        found = await app.store.blobs.find(name)
        if found is not None:
            return found if await app.store.files.finish_upload(file.id, found) is not None else None
    raise InvalidInput("the bytes of this upload were not sent; send them to its url first", field=_FIELD)


async def _complete(app: Confab, file: File, uploaded: BlobInfo) -> File | None:
    """Inspect an upload and store the result. None: the upload was replaced or completed at the same time."""
    _compare(file, uploaded.size, uploaded.sha256)
    async with app.inspector.folder(file.owner) as folder:
        path = folder / "upload"
        try:
            size, checksum = await _read_into(path, app.store.blobs.read(uploaded.name), file.size)
        except BlobMissing:
            # A later upload replaced it.
            return None
        _compare(file, size, checksum)
        inspected = await app.inspector.inspect(path, file.type_hint, file.filename)
        state = FileState.REJECTED if isinstance(inspected, RejectedFile) else await _scan(app, file, path)
        if isinstance(inspected, RejectedFile) or state is FileState.REJECTED:
            return await app.store.files.store_content(file.id, uploaded.name, FileState.REJECTED, None)
        name, content_path = uploaded.name, inspected.path
        if content_path is None and is_direct(uploaded.name):
            # The client could write this blob again.
            content_path = path
        if content_path is not None:
            name = blob_name(file.id, INSPECTED)
            store = app.store
            if await write_blob(store.files, store.blobs, store.clock, file.id, name, content_path) is None:
                return None
    return await app.store.files.store_content(file.id, uploaded.name, state, inspected.as_content(name))


async def _scan(app: Confab, file: File, path: Path) -> FileState:
    """Return the state of an upload after the scanner was asked, if there is one."""
    if app.inspector.scanner is None:
        return FileState.READY
    found = await app.inspector.scanner.scan(path)
    if isinstance(found, Infected):
        _log.warning("file_infected", file=file.public_id, found=found.name)
        return FileState.REJECTED
    return FileState.READY if isinstance(found, Clean) else FileState.SCANNING


def _compare(file: File, size: int, checksum: str | None) -> None:
    """Raise InvalidInput unless the bytes are those that were announced."""
    if size != file.size:
        raise InvalidInput(
            f"{size:,} bytes were sent, but sizeBytes is {file.size:,}; send the file again", field=_FIELD
        )
    if file.sha256 is not None and checksum is not None and checksum != file.sha256:
        raise InvalidInput("the bytes that were sent have another sha256; send the file again", field=_FIELD)


async def _read_into(path: Path, content: AsyncIterator[bytes], most: int) -> tuple[int, str]:
    """Write a blob into a temporary file. Return its length and checksum. Reads little more than `most` bytes."""
    size, checksum = 0, hashlib.sha256()
    with path.open("wb") as target:
        async for piece in content:
            size += len(piece)
            checksum.update(piece)
            await asyncio.to_thread(target.write, piece)
            if size > most:
                break
    return size, checksum.hexdigest()


async def _delete(app: Confab, names: Sequence[str]) -> None:
    """Delete blobs that nobody needs. The sweeper does it again once no write can be running."""
    if names:
        with suppress(StoreError):
            await app.store.blobs.delete(names)
