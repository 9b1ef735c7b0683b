"""Rewrites the rows of a collection that contain the id of an erased user, in small steps with pauses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pymongo import UpdateOne

from store.erasure.inventory import COLLECTIONS, Treatment
from store.erasure.renaming import Renaming
from store.erasure.row_changes import RowRewrite, change_of
from store.mongo.client import Document, Mongo
from store.mongo.index_fields import BY_ID
from store.mongo.paced_reads import PAUSE_RATIO
from store.mongo.sharding import SHARD_KEYS

WINDOW_ROWS = 5_000
"""Rows that one step looks at."""

_ROWS_PER_WRITE = 200
_MOST_PAUSE_SECONDS = 1.0


class RowRewriting:
    """Rewrites rows. Every method may be repeated. All raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_windows(self, collection: str, after: Any) -> AsyncIterator[Any]:
        """Yield positions in the order of `_id`, after each of which the caller has dealt with all rows up to it.

        after: Where to begin; None: at the first row. The caller's work between two positions is followed by a pause
        that is four times as long, at most a second. The last position is None: all rows after the position before it.
        """
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            behind: list[Document] = [{"$match": {"_id": {"$gt": after}}}] if after is not None else []
            steps: list[Document] = [
                {"$sort": {"_id": 1}},
                {"$skip": WINDOW_ROWS - 1},
                {"$limit": 1},
                {"$project": {"_id": 1}},
            ]
            found = await self._mongo.aggregate(collection, [*behind, *steps])
            end = found[0]["_id"] if found else None
            yield end
            if end is None:
                return
            after = end
            await asyncio.sleep(min(_MOST_PAUSE_SECONDS, PAUSE_RATIO * (loop.time() - began)))

    async def find_rows(self, collection: str, renaming: Renaming, after: Any, end: Any) -> list[Document]:
        """Return rows that may contain the user's id, after one `_id` and up to another. None: no limit."""
        query = COLLECTIONS[collection].query
        limits = {"$gt": after, "$lte": end}
        window = {name: limit for name, limit in limits.items() if limit is not None}
        parts: list[Document] = [{"_id": window}] if window else []
        if query is not None:
            parts.append(query(renaming))
        wanted = {"$and": parts} if parts else {}
        return await self._mongo.find(collection, wanted, sort=BY_ID, hint=BY_ID)

    def changes(self, collection: str, renaming: Renaming, row: Document) -> bool:
        """Return whether `rewrite` changes or removes a row."""
        return change_of(collection, COLLECTIONS[collection], row, renaming) is not None

    async def rewrite(self, collection: str, renaming: Renaming, rows: Sequence[Document]) -> int:
        """Rewrite rows of a collection. Return the number of those that contain the id.

        A row that is changed at the same time is left for the next pass.
        """
        rule = COLLECTIONS[collection]
        if rule.treatment is Treatment.NO_USERS:
            return 0
        changes = [(row, change) for row in rows if (change := change_of(collection, rule, row, renaming)) is not None]
        for start in range(0, len(changes), _ROWS_PER_WRITE):
            await self._write(collection, renaming, changes[start : start + _ROWS_PER_WRITE])
        return len(changes)

    async def _write(self, collection: str, renaming: Renaming, changes: Sequence[tuple[Document, RowRewrite]]) -> None:
        removed = [_identity(collection, row) for row, change in changes if change.new is None]
        if removed:
            await self._mongo.delete_each(collection, removed)
        updates, moved = list[UpdateOne](), list[Document]()
        for row, change in changes:
            if change.new is None:
                continue
            if _identity(collection, row) != _identity(collection, change.new):
                moved.append(_identity(collection, row))
            else:
                updates.append(_update(collection, row, change))
        if updates:
            await self._mongo.bulk_write(collection, updates)
        if moved:
            await self._move(collection, renaming, moved)

    async def _move(self, collection: str, renaming: Renaming, identities: Sequence[Document]) -> None:
        """Give rows another `_id` or shard key, as they are at this moment."""
        rule = COLLECTIONS[collection]

        async def work(session: Any) -> None:
            rows = await self._mongo.find(collection, {"$or": list(identities)}, session=session)
            changes = [change_of(collection, rule, row, renaming) for row in rows]
            new = [change.new for change in changes if change is not None and change.new is not None]
            await self._mongo.delete_each(collection, [_identity(collection, row) for row in rows], session)
            if new:
                # An earlier pass has moved such a row, and somebody has written it under the old id since.
                await self._mongo.delete_each(collection, [_identity(collection, row) for row in new], session)
                await self._mongo.insert_many(collection, new, session)

        await self._mongo.transaction(work)


def _identity(collection: str, row: Document) -> Document:
    """Return the query for a row: its `_id`, and its shard key."""
    return {name: row[name] for name in ("_id", *SHARD_KEYS.get(collection, ())) if name in row}


def _update(collection: str, row: Document, change: RowRewrite) -> UpdateOne:
    """Return the write of a change, which finds the row only if the changed fields are as they were read."""
    assert change.new is not None
    present = change.set or {name: value for name, value in change.new.items() if row.get(name, ...) != value}
    before = {name: row.get(name, {"$exists": False}) for name in (*present, *change.unset)}
    update: Document = {"$set": present} if present else {}
    if change.unset:
        update["$unset"] = dict.fromkeys(change.unset, "")
    return UpdateOne(_identity(collection, row) | before, update)
