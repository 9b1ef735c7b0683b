"""Reads of MongoDB for work in the background: at a limited rate, or in steps with pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from pymongo import ReadPreference

from store.base.driver_errors import translate_errors
from store.mongo.client import Document, Mongo, Sort
from store.mongo.index_fields import BY_ID

PAUSE_RATIO = 4.0
"""Seconds of pause for each second of work, so that servers can use the database."""


class RowPace:
    """A limit of rows per second. `rows`: the number so far."""

    def __init__(self, rows_per_second: float) -> None:
        self._rows_per_second = rows_per_second
        self._free_at = 0.0
        self.rows = 0

    async def spend(self, rows: int) -> None:
        """Count rows that were read, and wait as long as they take at the allowed rate."""
        self.rows += rows
        now = asyncio.get_running_loop().time()
        self._free_at = max(now, self._free_at) + rows / self._rows_per_second
        await asyncio.sleep(self._free_at - now)


class PacedMongo(Mongo):
    """A database whose reads outside transactions wait for a `RowPace`."""

    def __init__(
        self,
        url: str,
        database: str,
        driver: Literal["pymongo", "motor"],
        pace: RowPace,
        *,
        prefers_secondaries: bool = False,
    ) -> None:
        """prefers_secondaries: read from secondaries, which may be some seconds behind."""
        super().__init__(url, database, driver)
        self._pace = pace
        if prefers_secondaries:
            self._database = self._database.with_options(read_preference=ReadPreference.SECONDARY_PREFERRED)
            # These commands go to the primary.
            self._direct = None

    async def find(
        self,
        collection: str,
        query: Mapping[str, Any],
        *,
        projection: Mapping[str, Any] | None = None,
        sort: Sort | None = None,
        limit: int = 0,
        hint: Sort | None = None,
        session: Any = None,
        seconds: float | None = None,
    ) -> list[Document]:
        """Return all documents that match, as `Mongo.find` does, and wait for the pace."""
        rows = await super().find(
            collection,
            query,
            projection=projection,
            sort=sort,
            limit=limit,
            hint=hint,
            session=session,
            seconds=seconds,
        )
        if session is None:
            await self._pace.spend(len(rows))
        return rows

    async def aggregate(self, collection: str, pipeline: Sequence[Mapping[str, Any]]) -> list[Document]:
        """Return all results of an aggregation pipeline, and wait for the pace."""
        rows = await super().aggregate(collection, pipeline)
        await self._pace.spend(len(rows))
        return rows

    async def estimate_size(self, collection: str) -> int:
        """Return the approximate number of documents of a collection."""
        with translate_errors():
            size: int = await self._database[collection].estimated_document_count()
        return size


async def read_in_steps(
    mongo: Mongo,
    collection: str,
    query: Mapping[str, Any],
    *,
    projection: Mapping[str, Any],
    size: int,
    hint: Sort = BY_ID,
) -> AsyncIterator[list[Document]]:
    """Yield all rows that match, in the order of their ids, at most `size` together. Raises Unreachable.

    Between two steps it pauses, longer if the read or the caller's work took longer. query: must not name `_id`.
    hint: an index in which the rows that match are in the order of their ids.
    """
    loop = asyncio.get_running_loop()
    after: Document = {}
    while True:
        began = loop.time()
        rows = await mongo.find(
            collection, {**query, **after}, projection=projection, sort=BY_ID, limit=size, hint=hint
        )
        yield rows
        if len(rows) < size:
            return
        after = {"_id": {"$gt": rows[-1]["_id"]}}
        await asyncio.sleep(PAUSE_RATIO * (loop.time() - began))
