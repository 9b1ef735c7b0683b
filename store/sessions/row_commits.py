"""Group commit of session rows: user transactions that wait at the same time share their writes to MongoDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from store.base.errors import Fenced, NotAttempted, StoreError, Unreachable
from store.base.group_commit import GroupCommit
from store.mongo.client import Mongo
from store.mongo.collections import SESSIONS
from store.mongo.writes import Document, Update, Write
from store.sessions.fields import FENCE

_BATCH = 500
"""Largest number of transactions that share writes."""

_SHARED_SECONDS = 2.0
"""Time limit of a shared write. After it, and after any other failure, each transaction is written alone."""

_RETRY_SECONDS = 5.0
"""Time in which failed writes are repeated: MongoDB may be electing a primary. A user's lock lasts a little longer."""

_PAUSE_SECONDS = (0.05, 0.5)


@dataclass(slots=True, eq=False)
class _Transaction:
    """The writes of one user transaction, and their outcome."""

    fence: int
    rows: Sequence[Update]
    other_writes: Sequence[Write]
    done: asyncio.Future[None]
    error: Exception | None = field(default=None, init=False)
    is_abandoned: bool = field(default=False, init=False)


class RowCommits:
    """Writes the rows of this process's user transactions: one awaited round trip for all that wait.

    A transaction is written at once if no other is being written. Otherwise it goes with the next batch.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._queue = GroupCommit(self._write, _BATCH)

    async def commit(self, fence: int, rows: Sequence[Update], other_writes: Sequence[Write]) -> None:
        """Update rows, together with other writes. All writes may be repeated.

        Args:
            fence: The fence of the transaction's lock. Each update sets it and requires that there is no later one.
            rows: The updates, at most one of each row.
            other_writes: Writes to other collections. They have to be safe to repeat.

        Raises:
            Fenced: A row has a later fence, or does not exist. The others may have been written.
            Unreachable: MongoDB did not confirm the writes in time. Some may have been written.
        """
        transaction = _Transaction(fence, rows, other_writes, asyncio.get_running_loop().create_future())
        self._queue.push([transaction])
        try:
            await asyncio.shield(transaction.done)
        except asyncio.CancelledError:
            # The caller releases the lock and drops the cached state. A state that is loaded after that would lack a
            # row that is written later, so nothing may be written after this.
            transaction.is_abandoned = True
            if not self._queue.discard(transaction):
                await asyncio.wait([transaction.done])
            raise
        if transaction.error is not None:
            raise transaction.error

    async def _write(self, batch: Sequence[_Transaction]) -> None:
        """Write a batch, and set the outcomes of its transactions."""
        try:
            if len(batch) > 1:
                await self._write_together(batch)
            else:
                await self._write_alone(batch[0])
        except BaseException:
            for transaction in batch:
                transaction.error = transaction.error or Unreachable("the write was interrupted")
            raise
        finally:
            for transaction in batch:
                if not transaction.done.done():
                    transaction.done.set_result(None)

    async def _write_together(self, batch: Sequence[_Transaction]) -> None:
        try:
            await self._attempt(batch, _SHARED_SECONDS)
        except Exception:
            # One of them may be the reason: it must not fail the others.
            await asyncio.gather(*(self._write_alone(each) for each in batch if not each.is_abandoned))

    async def _write_alone(self, transaction: _Transaction) -> None:
        """Write one transaction. Repeat it until it is confirmed, or the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RETRY_SECONDS
        pause, longest = _PAUSE_SECONDS
        while True:
            try:
                await self._attempt([transaction])
                return
            except Exception as error:
                is_final = not isinstance(error, StoreError) or isinstance(error, NotAttempted)
                if is_final or transaction.is_abandoned or loop.time() + pause > deadline:
                    transaction.error = error
                    return
            await asyncio.sleep(pause)
            if transaction.is_abandoned:
                return
            pause = min(2 * pause, longest)

    async def _attempt(self, batch: Sequence[_Transaction], seconds: float | None = None) -> None:
        """Write all transactions once: one round trip, and another one if a row was not written."""
        rows = [update for transaction in batch for update in transaction.rows]
        other_writes = _merge(write for transaction in batch for write in transaction.other_writes)
        outcome, *_ = await self._mongo.write([Write.updates(SESSIONS, rows, may_collide=True), *other_writes], seconds)
        if outcome.touched == len(rows):
            return
        # MongoDB does not name the updates that matched nothing. A row that was written has the transaction's fence.
        fences = await self._find_fences(rows)
        for transaction in batch:
            if any(fences.get(query["_id"]) != transaction.fence for query, _, _ in transaction.rows):
                transaction.error = Fenced("a later holder of the lock has changed the user's sessions")

    async def _find_fences(self, rows: Iterable[Update]) -> dict[str, int]:
        ids = [query["_id"] for query, _, _ in rows]
        found = await self._mongo.find(SESSIONS, {"_id": {"$in": ids}}, projection={FENCE: 1})
        return {row["_id"]: row[FENCE] for row in found if FENCE in row}


def _merge(writes: Iterable[Write]) -> list[Write]:
    """Return one write for each collection and kind."""
    merged: dict[tuple[str, str, bool], list[Document]] = {}
    for collection, kind, statements, may_collide in writes:
        merged.setdefault((collection, kind, may_collide), []).extend(statements)
    return [
        Write(collection, "insert" if kind == "insert" else "update", statements, may_collide)
        for (collection, kind, may_collide), statements in merged.items()
    ]
