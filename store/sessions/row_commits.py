"""Group commit of session rows: user transactions that wait at the same time share their writes to MongoDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from store.base.errors import Fenced, NotAttempted, StoreError
from store.mongo.client import Mongo
from store.mongo.collections import SESSIONS
from store.mongo.writes import Document, Update, Write
from store.sessions.fields import FENCE

_BATCH = 500
"""Largest number of transactions that share writes."""

_SLOW_SECONDS = 1.0
"""After this time the next batch is written too, so that a locked row delays only its own batch."""

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
    also: Sequence[Write]
    done: asyncio.Future[None] | None = None
    """Set for transactions that wait for another batch."""
    error: Exception | None = field(default=None, init=False)


class RowCommits:
    """Writes the rows of this process's user transactions: one awaited round trip for all that wait.

    A transaction is written at once if no other is being written. Otherwise it goes with the next batch.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._waiting: list[_Transaction] = []
        self._writing: Sequence[_Transaction] | None = None
        """The batch that is being written, unless it is slow."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def commit(self, fence: int, rows: Sequence[Update], also: Sequence[Write]) -> None:
        """Update rows, together with other writes. All writes may be repeated.

        Args:
            fence: The fence of the transaction's lock. Each update sets it and requires that there is no later one.
            rows: The updates, at most one of each row.
            also: Writes to other collections. They have to be safe to repeat.

        Raises:
            Fenced: A row has a later fence, or does not exist. The others may have been written.
            Unreachable: MongoDB did not confirm the writes in time. Some may have been written.
        """
        transaction = _Transaction(fence, rows, also)
        if self._writing is None:
            await self._run([transaction])
        else:
            await self._wait(transaction)
        if transaction.error is not None:
            raise transaction.error

    async def _wait(self, transaction: _Transaction) -> None:
        transaction.done = asyncio.get_running_loop().create_future()
        self._waiting.append(transaction)
        try:
            await transaction.done
        except asyncio.CancelledError:
            if transaction in self._waiting:
                # The caller releases the lock, so nothing may be written after this.
                self._waiting.remove(transaction)
            raise

    async def _run(self, batch: Sequence[_Transaction]) -> None:
        """Write a batch. Then, or when it turns out to be slow, let the next one begin."""
        self._writing = batch
        timer = asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._begin_next, batch)
        try:
            await self._write(batch)
        finally:
            timer.cancel()
            self._begin_next(batch)

    def _begin_next(self, after: Sequence[_Transaction]) -> None:
        if self._writing is not after:
            return
        self._writing = None
        if self._waiting:
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            self._writing = batch
            task = asyncio.get_running_loop().create_task(self._run_waiting(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_waiting(self, batch: Sequence[_Transaction]) -> None:
        try:
            await self._run(batch)
        finally:
            for transaction in batch:
                if transaction.done is not None and not transaction.done.done():
                    transaction.done.set_result(None)

    async def _write(self, batch: Sequence[_Transaction]) -> None:
        """Write a batch, and set the errors of the transactions that failed."""
        if len(batch) > 1:
            try:
                await self._attempt(batch, _SHARED_SECONDS)
            except Exception:
                # One of them may be the reason: it must not fail the others.
                await asyncio.gather(*(self._write_alone(transaction) for transaction in batch))
        else:
            await self._write_alone(batch[0])

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
                if is_final or loop.time() + pause > deadline:
                    transaction.error = error
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _attempt(self, batch: Sequence[_Transaction], seconds: float | None = None) -> None:
        """Write all transactions once: one round trip, and another one if a row was not written."""
        rows = [update for transaction in batch for update in transaction.rows]
        also = _merge(write for transaction in batch for write in transaction.also)
        outcome, *_ = await self._mongo.write([Write.updates(SESSIONS, rows, may_collide=True), *also], seconds)
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
