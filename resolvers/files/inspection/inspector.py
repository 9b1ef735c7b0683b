"""Inspection of uploaded files, and thumbnails of images."""

from __future__ import annotations

import secrets
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

import structlog

from resolvers.base.errors import Unavailable
from resolvers.files.inspection.decoder_pool import DecoderPool
from resolvers.files.inspection.decoding.jobs import Answer, DecodingJob, DecodingLimits
from resolvers.files.inspection.results import Inspected, RejectedFile, Scaled, thumbnail_width
from resolvers.files.inspection.scanner import Scanner
from resolvers.files.inspection.temp_folders import TempFolders

_log = structlog.get_logger()

_PROCESSES = 2


class Inspector:
    """Finds out what is in files. Untrusted bytes are decoded in other processes only (ADR 77).

    Files are passed as paths in a folder of `folder`; new files are written into the same folder:

        async with inspector.folder(owner) as folder:
            path = folder / "upload"
            ...
            result = await inspector.inspect(path, file.type_hint, file.filename)
    """

    def __init__(
        self,
        temp_dir: Path | None = None,
        scanner: Scanner | None = None,
        pool: DecoderPool | None = None,
        limits: DecodingLimits | None = None,
    ) -> None:
        self.scanner = scanner
        """The virus scanner, if there is one."""
        self.outcomes = Counter[tuple[str, str]]()
        """Jobs by kind (`inspect`, `scale`) and outcome (`ok`, `rejected`, `unavailable`)."""
        self._folders = TempFolders(temp_dir)
        self._pool = pool or DecoderPool(_PROCESSES)
        self._limits = limits or DecodingLimits()

    async def open(self) -> None:
        """Remove temporary files of processes that have died."""
        await self._folders.open()

    async def close(self) -> None:
        """End all processes and remove all temporary files."""
        await self._pool.close()
        await self._folders.close()

    def folder(self, owner: str | None = None) -> AbstractAsyncContextManager[Path]:
        """Return a folder for temporary files, which is removed with its contents at the end of the block.

        `owner`: the owner of the file that is inspected. Files of one owner are inspected one after the other. None: it
        has no owner, and the caller limits their number. Entering raises Unavailable if too many are in use for several
        seconds.
        """
        return self._folders.folder(owner)

    async def inspect(
        self, path: Path, type_hint: str | None = None, filename: str | None = None
    ) -> Inspected | RejectedFile:
        """Return what is in a file. Of an image, a copy without metadata is written.

        The type comes from the bytes. Only plain text may get another type by the hint or the name, and all of these
        are served as downloads. Raises Unavailable.
        """
        target, answer = await self._run("inspect", path, type_hint=type_hint, filename=filename)
        if "rejected" in answer:
            return _reject(answer)
        new = target if answer.get("is_written") else None
        return Inspected(
            content_type=answer["content_type"],
            size=(new or path).stat().st_size,
            path=new,
            width=answer.get("width"),
            height=answer.get("height"),
            thumb_hash=answer.get("thumb_hash"),
            is_image=answer.get("is_image", False),
        )

    async def scale(self, path: Path, width: int) -> Scaled | RejectedFile:
        """Return a thumbnail of an image that was inspected: `thumbnail_width(width)` pixels wide, or as wide as it is.

        Raises Unavailable.
        """
        target, answer = await self._run("scale", path, width=thumbnail_width(width))
        if "rejected" in answer:
            return _reject(answer)
        return Scaled(target, answer["content_type"], target.stat().st_size)

    async def _run(
        self,
        kind: Literal["inspect", "scale"],
        path: Path,
        *,
        type_hint: str | None = None,
        filename: str | None = None,
        width: int = 0,
    ) -> tuple[Path, Answer]:
        target = path.with_name(f"{kind}-{secrets.token_hex(8)}")
        job = DecodingJob(kind, str(path), str(target), type_hint, filename, width, self._limits)
        try:
            answer = await self._pool.run(job)
        except Unavailable:
            self.outcomes[kind, "unavailable"] += 1
            raise
        self.outcomes[kind, "rejected" if "rejected" in answer else "ok"] += 1
        return target, answer


def _reject(answer: Answer) -> RejectedFile:
    _log.info("file_rejected", reason=answer["rejected"])
    return RejectedFile(answer["rejected"])
