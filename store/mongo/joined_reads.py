"""Reads of documents by `_id` that concurrent calls share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable
from weakref import WeakValueDictionary

from store.base.group_commit import GroupCommit
from store.mongo.client import Document, Mongo

_MOST_IDS = 1_000
"""Documents that one query reads."""


class _Call:
    """One call, and the documents that were found for it so far."""

    __slots__ = ("_left", "answer", "found")

    def __init__(self, ids: int) -> None:
        self._left = ids
        self.found: dict[str, Document] = {}
        self.answer: asyncio.Future[dict[str, Document]] = asyncio.get_running_loop().create_future()

    def add(self, row: Document | None) -> None:
        """Note the outcome for one id; None: there is no such document."""
        self._left -= 1
        if row is not None:
            self.found[row["_id"]] = row
        if not self._left and not self.answer.done():
            self.answer.set_result(self.found)

    def fail(self, error: Exception) -> None:
        """Fail the call."""
        if not self.answer.done():
            self.answer.set_exception(error)


class JoinedReads:
    """Reads documents of one collection, with one query at a time for each group of calls.

    The calls of one turn of the event loop share a query. Those that come while it runs share the next one. A query
    begins after the calls that it answers, so it sees all changes that were acknowledged before them. If a query takes
    longer than a second, the next one begins.
    """

    def __init__(self, mongo: Mongo, collection: str) -> None:
        """Read nothing yet."""
        self._mongo = mongo
        self._collection = collection
        self._queues: WeakValueDictionary[Hashable, GroupCommit[tuple[str, _Call]]] = WeakValueDictionary()

    async def find(self, group: Hashable, ids: Collection[str]) -> dict[str, Document]:
        """Return the documents that exist, by `_id`. One round trip for up to 1,000, which other calls may share.

        group: Calls share queries only within one. Choose it so that one shard has most of its documents.

        The documents of a query are as of one moment, and shared: do not change them. Raises StoreError.
        """
        if not ids:
            return {}
        queue = self._queues.get(group)
        if queue is None:
            queue = self._queues[group] = GroupCommit(self._read, _MOST_IDS)
        call = _Call(len(ids))
        queue.push([(id, call) for id in ids])
        return await call.answer

    async def _read(self, batch: list[tuple[str, _Call]]) -> None:
        ids = list({id for id, call in batch if not call.answer.done()})
        try:
            (rows,) = await self._mongo.find_as_of_one_moment((self._collection, {"_id": {"$in": ids}}))
        except Exception as error:
            for _, call in batch:
                call.fail(error)
            return
        found = {row["_id"]: row for row in rows}
        for id, call in batch:
            call.add(found.get(id))
