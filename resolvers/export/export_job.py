"""The job that makes an export (ADR 93).

The zip is a file of its user. So it is found, signed, served, and removed at its end like other files (ADR 75, 76).
Every attempt begins the zip again, as a new file. The file of an earlier attempt is cancelled, and the sweeper
removes its bytes: the row of a file has the name of its blob before the first byte is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from resolvers.base.app import Confab
from resolvers.export.archive import write_archive
from resolvers.export.section import NO_CONVERSATION, Exported
from resolvers.export.sections import SECTIONS
from resolvers.files.blob_writing import blob_name
from resolvers.jobs.job_worker import RunningJob
from store.base.errors import StoreError
from store.base.ids import FileId
from store.files.blobs.base import LONG
from store.files.file import File, FileContent, FileState
from store.jobs.job import Job

KEPT_MS = 7 * 24 * 3600 * 1000
"""Time for which an export is kept after it was finished."""

LONGEST_MS = 24 * 3600 * 1000
"""Time limit of one attempt. After it the sweeper removes what was written."""

ZIP_TYPE = "application/zip"

_WRITE_MS = 5 * 60_000
_NOTED_EVERY_SECONDS = 60.0

_FILE, _EXPIRES = "file", "expires"

_log = structlog.get_logger()


class ExportRemoved(Exception):
    """Raised when the file of the export was removed while it was written: it was cancelled, or the user was erased."""


class FinishedExport(NamedTuple):
    """The file of a finished export, and when it is removed (ms)."""

    file: FileId
    expires_at_ms: int


def finished_export(job: Job) -> FinishedExport | None:
    """Return the result of a job; None: it has none yet."""
    if _EXPIRES not in job.progress:
        return None
    return FinishedExport(FileId(int(job.progress[_FILE])), job.progress[_EXPIRES])


def export_filename(job: Job) -> str:
    """Return the name by which browsers save an export."""
    return f"export-{datetime.fromtimestamp(job.created_at_ms / 1000, UTC):%Y-%m-%d}.zip"


async def run_export(app: Confab, running: RunningJob) -> None:
    """Make an export. Raises StoreError, LeaseLost, ExportRemoved."""
    store, job = app.store, running.job
    if _FILE in job.progress:
        await store.files.cancel(FileId(int(job.progress[_FILE])), job.user, store.clock.now_ms())
    number = FileId(store.ids.next())
    # Before the row, so that the next attempt can cancel this file. Every attempt does this, so it is no progress.
    await running.save({_FILE: str(number)}, counts=False)
    await store.files.ensure(_new_file(job, number, store.clock.now_ms()))
    try:
        stored = await _write(app, job, number)
    except Exception:
        with suppress(StoreError):
            await store.files.cancel(number, job.user, store.clock.now_ms())
        raise
    expires_at_ms = store.clock.now_ms() + KEPT_MS
    if not await store.file_removals.postpone_removal(stored, expires_at_ms):
        raise ExportRemoved
    await running.save({_FILE: str(number), _EXPIRES: expires_at_ms})
    size = stored.content.size if stored.content is not None else 0
    _log.info("export_finished", job=job.id, bytes=size)


def _new_file(job: Job, number: FileId, now_ms: int) -> File:
    return File(
        id=number,
        owner=job.user,
        conversation=NO_CONVERSATION,
        filename=export_filename(job),
        size=0,
        type_hint=ZIP_TYPE,
        remove_at_ms=now_ms + LONGEST_MS,
    )


async def _write(app: Confab, job: Job, number: FileId) -> File:
    """Write the zip, and make the file READY."""
    store, name = app.store, blob_name(number, LONG)
    await _note_write(app, number, name)
    async with aclosing(_content(app, job, number, name)) as content:
        blob = await store.blobs.write_long(name, content)
    await store.files.finish_upload(number, blob)
    stored = await store.files.store_content(number, name, FileState.READY, FileContent(name, ZIP_TYPE, blob.size))
    if stored is None:
        raise ExportRemoved
    return stored


async def _content(app: Confab, job: Job, number: FileId, name: str) -> AsyncGenerator[bytes, None]:
    """Yield the zip. Note in the row of the file, again and again, that its blob is being written."""
    loop = asyncio.get_running_loop()
    noted_at = loop.time()
    async with aclosing(write_archive(Exported(app, job.user), SECTIONS)) as pieces:
        async for piece in pieces:
            if loop.time() - noted_at > _NOTED_EVERY_SECONDS:
                await _note_write(app, number, name)
                noted_at = loop.time()
            yield piece


async def _note_write(app: Confab, number: FileId, name: str) -> None:
    until_ms = app.store.clock.now_ms() + _WRITE_MS
    if not await app.store.files.begin_write(number, name, until_ms):
        raise ExportRemoved
