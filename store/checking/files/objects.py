"""The files and blobs that checks go through, in parts."""

from __future__ import annotations

from collections.abc import AsyncIterator

from store.base.ids import FileId, file_id
from store.checking.check import Objects
from store.store import Store

_ROWS_PER_QUERY = 1_000


async def file_parts(store: Store, objects: Objects, size: int) -> AsyncIterator[list[str]]:
    """Yield the ids of all files, or the names of all blobs, up to `size` at once."""
    async for ids in _blobs(store) if objects is Objects.BLOB else _files(store):
        for start in range(0, len(ids), size):
            yield ids[start : start + size]


async def _files(store: Store) -> AsyncIterator[list[str]]:
    last: FileId | None = None
    while files := await store.files.list_after(last, _ROWS_PER_QUERY):
        yield [file_id(file.id) for file in files]
        last = files[-1].id


async def _blobs(store: Store) -> AsyncIterator[list[str]]:
    async for names in store.blobs.list_names():
        yield list(names)
