"""Thumbnails: made when somebody asks for one, once, and kept as long as their image (ADR 76).

Several servers may make the same one at a time. Each writes a blob with a name of its own, noted in the file's row
before. One conditional update decides which one stays; the others are deleted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import structlog

from resolvers.base.errors import A_MOMENT_MS, Unavailable
from resolvers.files.blob_writing import blob_name, write_blob
from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.results import RejectedFile, Scaled
from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import FileId, UserId
from store.base.tasks import end_tasks
from store.files.blobs.base import BlobInfo, BlobMissing, BlobStore
from store.files.file import File, FileContent, FileState
from store.files.file_store import FileStore

MOST_AT_ONCE = 128
"""Thumbnails that a process makes or that wait for it. More are refused."""

MOST_PER_OWNER = 32
"""Of these, thumbnails of one owner's images."""

_MOST_REMEMBERED = 1_000
"""Images that could not be scaled and are not tried again."""

_EXTENSIONS = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "image/gif": "gif"}
"""Extensions of the names of thumbnails, by type: the row has names only."""

_TYPES = {extension: content_type for content_type, extension in _EXTENSIONS.items()}

_log = structlog.get_logger()


class Thumbnail(NamedTuple):
    """A thumbnail that is stored, or the image itself."""

    blob: str
    size: int
    content_type: str


class Thumbnails:
    """Finds and makes thumbnails of one process. All methods raise Unreachable."""

    def __init__(self, files: FileStore, blobs: BlobStore, inspector: Inspector, clock: Clock) -> None:
        self._files = files
        self._blobs = blobs
        self._inspector = inspector
        self._clock = clock
        self._making: dict[tuple[FileId, int], asyncio.Task[str | None]] = {}
        self._by_owner = Counter[UserId]()
        self._impossible: dict[tuple[FileId, int], None] = {}
        self.made = 0
        """Thumbnails that this process has made."""

    async def close(self) -> None:
        """End all that are being made."""
        await end_tasks(list(self._making.values()))

    async def find_or_make(self, file: File, content: FileContent, width: int) -> Thumbnail | None:
        """Return the thumbnail of an image that is wider. None: the file is being removed, or its bytes are lost.

        A thumbnail that is lost is made again. If the image cannot be scaled, return the image itself. Raises
        Unavailable if too many wait.
        """
        key = (file.id, width)
        info = await self._find(file.thumbnails.get(width))
        if info is None and key not in self._impossible:
            info = await self._find(await self._make_once(file, width, content))
        if key in self._impossible:
            return Thumbnail(content.blob, content.size, content.content_type)
        return Thumbnail(info.name, info.size, _TYPES[info.name.rpartition(".")[2]]) if info is not None else None

    async def _find(self, name: str | None) -> BlobInfo | None:
        return await self._blobs.find(name) if name is not None else None

    async def _make_once(self, file: File, width: int, content: FileContent) -> str | None:
        key = (file.id, width)
        task = self._making.get(key)
        if task is None:
            if len(self._making) >= MOST_AT_ONCE or self._by_owner[file.owner] >= MOST_PER_OWNER:
                raise Unavailable("too many thumbnails are being made; please try again", retry_after_ms=A_MOMENT_MS)
            self._by_owner[file.owner] += 1
            task = self._making[key] = asyncio.create_task(self._make(file, width, content))
            task.add_done_callback(lambda done: self._end(key, file.owner, done))
        # A client that goes away ends nothing that others wait for.
        return await asyncio.shield(task)

    def _end(self, key: tuple[FileId, int], owner: UserId, task: asyncio.Task[str | None]) -> None:
        del self._making[key]
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]
        # Marks the exception as retrieved, if nobody waits any more.
        _ = task.cancelled() or task.exception()

    async def _make(self, file: File, width: int, content: FileContent) -> str | None:
        """Return the name of the thumbnail that the row has at the end. None: there is none."""
        async with self._inspector.folder(file.owner) as folder:
            path = folder / "image"
            try:
                with path.open("wb") as target:
                    async for piece in self._blobs.read(content.blob):
                        await asyncio.to_thread(target.write, piece)
            except BlobMissing:
                return None
            scaled = await self._inspector.scale(path, width)
            if isinstance(scaled, RejectedFile):
                self._remember_impossible((file.id, width))
                return None
            return await self._store(file, width, scaled)

    def _remember_impossible(self, key: tuple[FileId, int]) -> None:
        self._impossible[key] = None
        if len(self._impossible) > _MOST_REMEMBERED:
            del self._impossible[next(iter(self._impossible))]

    async def _store(self, file: File, width: int, scaled: Scaled) -> str | None:
        name = f"{blob_name(file.id, f'thumbnail{width}')}.{_EXTENSIONS[scaled.content_type]}"
        ready = FileState.READY
        if await write_blob(self._files, self._blobs, self._clock, file.id, name, scaled.path, ready) is None:
            return None
        if await self._files.add_thumbnail(file.id, width, name, self._clock.now_ms(), file.thumbnails.get(width)):
            self.made += 1
            _log.info("thumbnail_made", file=file.id, width=width, bytes=scaled.size)
            return name
        with suppress(StoreError):
            await self._blobs.delete([name])
        row = await self._files.find(file.id)
        return row.thumbnails.get(width) if row is not None and row.state is FileState.READY else None
