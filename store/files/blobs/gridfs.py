"""Blobs in MongoDB, in the format of GridFS.

Rows are written through `Mongo` and not by the buckets of the drivers: these keep up to 48 MB of a file in memory
while it is written and 16 MB while it is read, and find no chunks of files that were never completed.

    blobs.files   `_id` and `filename`: the blob's name; `length`, `chunkSize`, `uploadDate`, `metadata.sha256`
    blobs.chunks  `files_id`: the blob's name; `n`: position of the chunk, from 0; `data`

A blob is whole once its row in `blobs.files` is stored: it is written last and deleted first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime

from store.base.errors import NotAttempted, StoreError, Unreachable
from store.base.tasks import end_tasks
from store.files.blobs.base import BlobInfo, BlobMissing, DirectUpload
from store.files.blobs.pieces import cut
from store.mongo.client import Document, Mongo
from store.mongo.collections import BLOB_CHUNKS, BLOB_FILES
from store.mongo.index_fields import BY_CHUNK
from store.mongo.indexes import BLOBS

CHUNK_BYTES = 255 * 1024
"""Size of a chunk, as the drivers' own. SHA-256 of it takes less than 1 ms."""

_WRITES_IN_FLIGHT = 2
"""Chunks of one blob that are being written at once. They bound the memory of an upload."""

_RETRY_SECONDS = 8.0
"""Time in which the write of a chunk is repeated, for example while MongoDB elects a primary."""

_PAUSE_SECONDS = 0.3
"""Time between two attempts."""

_CLEANUP_SECONDS = 2.0
"""Longest wait for the writes that were in flight when a blob failed."""

_NAMES_PER_PAGE = 1_000
_CHUNKS_PER_PAGE = 10_000
"""Entries of the index of chunks that are read for a page of names."""


class GridFSBlobs:
    """Keeps blobs in the deployment's MongoDB."""

    def __init__(self, mongo: Mongo, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._mongo = mongo
        self._chunk_bytes = chunk_bytes
        self._has_index = False

    async def open(self) -> None:
        """Do nothing: the first write creates the index of chunks, so deployments without files have none."""

    async def close(self) -> None:
        """Do nothing: the connections belong to `Mongo`."""

    async def write(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        """Store a blob while its bytes arrive. All writes are acknowledged by a majority."""
        await self._ensure_index()
        writes = set[asyncio.Task[None]]()
        try:
            info = await self._write_chunks(name, content, writes)
            await self._insert(BLOB_FILES, self._file_row(info))
        except BaseException:
            await self._discard(name, writes)
            raise
        return info

    async def write_long(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        """Store a blob of any length: `write` holds two chunks of it."""
        return await self.write(name, content)

    async def _ensure_index(self) -> None:
        if not self._has_index:
            for collection, index in BLOBS:
                await self._mongo.ensure_indexes(collection, [index])
            self._has_index = True

    async def _write_chunks(
        self, name: str, content: AsyncIterable[bytes], writes: set[asyncio.Task[None]]
    ) -> BlobInfo:
        checksum, size, number = hashlib.sha256(), 0, 0
        async with aclosing(cut(content, self._chunk_bytes)) as chunks:
            async for chunk in chunks:
                if len(writes) == _WRITES_IN_FLIGHT:
                    await _wait_for_one(writes)
                row = {"files_id": name, "n": number, "data": chunk}
                writes.add(asyncio.create_task(self._insert(BLOB_CHUNKS, row)))
                checksum.update(chunk)
                size, number = size + len(chunk), number + 1
        while writes:
            await _wait_for_one(writes)
        return BlobInfo(name, size, checksum.hexdigest())

    def _file_row(self, info: BlobInfo) -> Document:
        return {
            "_id": info.name,
            "length": info.size,
            "chunkSize": self._chunk_bytes,
            "uploadDate": datetime.now(UTC),
            "filename": info.name,
            "metadata": {"sha256": info.sha256},
        }

    async def _insert(self, collection: str, row: Document) -> None:
        """Insert a row. A duplicate was stored by an earlier attempt of this call: names are never used twice."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RETRY_SECONDS
        while True:
            try:
                await self._mongo.insert_each(collection, [row])
                return
            except NotAttempted:
                raise
            except Unreachable:
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _discard(self, name: str, writes: set[asyncio.Task[None]]) -> None:
        """Delete what was stored of a blob. A chunk whose write MongoDB still executes would be stored afterwards."""
        if writes:
            await asyncio.wait(writes, timeout=_CLEANUP_SECONDS)
        await end_tasks(writes)
        for task in writes:
            # Marks the exception as retrieved: `write` raises the first one.
            _ = task.cancelled() or task.exception()
        with suppress(StoreError):
            await self.delete([name])

    async def read(self, name: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a range, a chunk at a time. Reads only the chunks that it needs. Raises BlobMissing."""
        row = await self._mongo.find_one(BLOB_FILES, {"_id": name})
        if row is None:
            raise BlobMissing(name)
        length, size = row["length"], row["chunkSize"]
        end = length if end is None else min(end, length)
        while start < end:
            number, offset = divmod(start, size)
            query = {"files_id": name, "n": number}
            chunk = await self._mongo.find_one(BLOB_CHUNKS, query)
            if chunk is None:
                raise BlobMissing(name)
            data: bytes = chunk["data"]
            part = data[offset : offset + end - start]
            if not part:
                raise BlobMissing(name)
            yield part
            start += len(part)

    async def find(self, name: str) -> BlobInfo | None:
        """Return a blob; None if there is none, or not a whole one."""
        row = await self._mongo.find_one(BLOB_FILES, {"_id": name})
        return None if row is None else BlobInfo(name, row["length"], row["metadata"]["sha256"])

    async def delete(self, names: Sequence[str]) -> None:
        """Delete blobs and all their chunks, one blob after another. A reader may see an end of a blob missing."""
        if names:
            await self._mongo.delete_ids(BLOB_FILES, names)
        for name in names:
            await self._mongo.delete_each(BLOB_CHUNKS, [{"files_id": name}], many=True)

    async def list_names(self, after: str = "") -> AsyncIterator[Sequence[str]]:
        """Yield all names above `after` in order, in pages, with those of blobs that are not whole."""
        while True:
            files, chunks = await self._mongo.gather(
                self._list(BLOB_FILES, "_id", after, _NAMES_PER_PAGE),
                self._list(BLOB_CHUNKS, "files_id", after, _CHUNKS_PER_PAGE),
            )
            names = sorted({*files, *chunks})
            # Behind the end of a list that was cut off, the other one may lack names.
            ends = [
                found[-1]
                for found, limit in ((files, _NAMES_PER_PAGE), (chunks, _CHUNKS_PER_PAGE))
                if len(found) == limit
            ]
            last = min(ends, default=None)
            page = names if last is None else [name for name in names if name <= last]
            if page:
                yield page
            if last is None:
                return
            after = last

    async def _list(self, collection: str, field: str, after: str, limit: int) -> list[str]:
        """Return values of an indexed field above a value, in order. Only the index is read."""
        projection = {field: 1} if field == "_id" else {field: 1, "_id": 0}
        order = [("_id", 1)] if field == "_id" else list(BY_CHUNK)
        rows = await self._mongo.find(
            collection, {field: {"$gt": after}}, projection=projection, sort=order, limit=limit
        )
        return [row[field] for row in rows]

    def upload_request(self, name: str, size: int, sha256: str | None, seconds: int) -> DirectUpload | None:
        """Return None: uploads go through Confab."""

    def download_url(self, name: str, content_type: str, disposition: str, seconds: int) -> str | None:
        """Return None: downloads go through Confab."""


async def _wait_for_one(writes: set[asyncio.Task[None]]) -> None:
    """Wait until a write has ended, and raise its failure."""
    done, _ = await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    writes -= done
    failures = [failure for task in done if (failure := task.exception()) is not None]
    if failures:
        raise failures[0]
