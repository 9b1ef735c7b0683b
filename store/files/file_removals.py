"""Removal of files, and of blobs that are superfluous (ADR 75).

The sweeper calls list_due, begin_removal, deletes the blobs, and calls end_removal. It does the same with list_untidy,
begin_tidying and end_tidying.
"""

from __future__ import annotations

from typing import Any

from store.files.file import File, FileField, FileState, file_from
from store.files.file_store import WRITE_MARGIN_MS
from store.mongo.client import Document, Mongo
from store.mongo.collections import FILES
from store.mongo.index_fields import BY_REMOVAL, BY_TIDYING

_F = FileField

LEASE_MS = 60_000
"""Time for which other servers leave a removal to the one that has begun it."""


class FileRemovals:
    """Changes of the rows of files that are being removed. Each method is one round trip. All raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_due(self, now_ms: int, limit: int) -> list[File]:
        """Return files whose bytes may be removed and that nobody writes, the longest due first.

        On a sharded cluster this query goes to every shard.
        """
        query = {_F.REMOVE_AT: {"$lte": now_ms}, _F.WRITING_UNTIL: {"$lte": now_ms - WRITE_MARGIN_MS}}
        return [file_from(row) for row in await self._find(query, BY_REMOVAL, limit)]

    async def postpone_removal(self, file: File, until_ms: int) -> bool:
        """Remove a file later. False: it changed."""
        return await self._update(_unchanged(file), {"$set": {_F.REMOVE_AT: until_ms}})

    async def begin_removal(self, file: File, now_ms: int) -> File | None:
        """Make a file that is due REMOVED, so that no message can claim it and no write can begin.

        Return it as it is then; None if it is not due any more, or another server removes it. If this server does not
        end the removal, others find it after a minute.
        """
        change = {"$set": {_F.STATE: FileState.REMOVED.value, _F.REMOVE_AT: now_ms + LEASE_MS}}
        row = await self._mongo.find_one_and_update(FILES, _unchanged(file), change, after=True)
        return file_from(row) if row is not None else None

    async def end_removal(self, file: File) -> None:
        """Forget a file whose blobs are deleted. If a message had it, its row stays, without blobs."""
        query = {_F.ID: int(file.id), _F.STATE: FileState.REMOVED.value}
        if file.is_bound:
            gone = dict.fromkeys((_F.REMOVE_AT, _F.TIDY_AT, _F.THUMBNAILS, _F.UPLOADED), "")
            await self._update(query, {"$set": {_F.BLOBS: []}, "$unset": gone})
        else:
            await self._mongo.delete_one(FILES, query)

    async def list_untidy(self, now_ms: int, limit: int) -> list[File]:
        """Return files with superfluous blobs that nobody writes any more.

        On a sharded cluster this query goes to every shard.
        """
        query = {
            _F.TIDY_AT: {"$lte": now_ms},
            _F.WRITING_UNTIL: {"$lte": now_ms - WRITE_MARGIN_MS},
            _F.STATE: {"$nin": [FileState.REMOVED.value, FileState.UPLOADING.value]},
        }
        return [file_from(row) for row in await self._find(query, BY_TIDYING, limit)]

    async def begin_tidying(self, file: File, now_ms: int) -> bool:
        """Leave superfluous blobs to the caller for a minute. False: another server removes them."""
        query = {_F.ID: int(file.id), _F.TIDY_AT: file.tidy_at_ms}
        return await self._update(query, {"$set": {_F.TIDY_AT: now_ms + LEASE_MS}})

    async def end_tidying(self, file: File) -> None:
        """Forget the superfluous blobs of a file, which are deleted. Nothing happens if a write has begun since."""
        query = {_F.ID: int(file.id), _F.WRITING_UNTIL: file.writing_until_ms}
        change = {"$pull": {_F.BLOBS: {"$in": list(file.superfluous)}}, "$unset": {_F.TIDY_AT: ""}}
        await self._update(query, change)

    async def _find(self, query: Document, index: tuple[tuple[str, int], ...], limit: int) -> list[Document]:
        return await self._mongo.find(FILES, query, sort=index, limit=limit)

    async def _update(self, query: Document, change: Any) -> bool:
        return bool(await self._mongo.update_one(FILES, query, change))


def _unchanged(file: File) -> Document:
    """Return the query for a file that is due, if nothing has claimed it or extended its time since it was read."""
    return {_F.ID: int(file.id), _F.REMOVE_AT: file.remove_at_ms}
