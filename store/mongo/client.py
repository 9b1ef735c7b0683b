"""MongoDB. This is the only module that calls its driver, so the driver can be a setting.

Every write is acknowledged by a majority, with its journal. Every read comes from the primary and sees only what a
majority has. If MongoDB has had no primary for some seconds, every call raises NotAttempted at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Literal

from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient, DeleteMany, DeleteOne, IndexModel, ReadPreference, ReturnDocument, timeout
from pymongo.read_concern import ReadConcern
from pymongo.topology_description import TOPOLOGY_TYPE
from pymongo.write_concern import WriteConcern

from store.base.background import count_trips
from store.base.driver_errors import translate_errors
from store.base.errors import NotAttempted, Unreachable
from store.mongo.direct_commands import DirectCommands
from store.mongo.primary import PrimaryWatch
from store.mongo.read_queue import MAX_READS_PER_USER, ReadQueue
from store.mongo.snapshot_reads import find_as_of_one_moment
from store.mongo.writes import Command, Document, Write, WriteOutcome, outcome_of

__all__ = ["Document", "Mongo", "Sort"]

Sort = Sequence[tuple[str, int]]

_ROWS_PER_BATCH = 10_000
_HEARTBEAT_MS = 1_000

_grouped: ContextVar[bool] = ContextVar("mongo_grouped", default=False)


def _translate_outside(session: Any) -> AbstractContextManager[None]:
    # In a transaction the driver has to see its own errors: it repeats the transaction after some of them.
    return translate_errors() if session is None else nullcontext()


class Mongo:
    """One database. `trips` and `background_trips` count round trips; calls made through `gather` count once."""

    def __init__(
        self,
        url: str,
        database: str,
        driver: Literal["pymongo", "motor"] = "pymongo",
        *,
        timeout_ms: int = 10_000,
        max_reads_per_user: int = MAX_READS_PER_USER,
        heartbeat_ms: int = _HEARTBEAT_MS,
    ) -> None:
        """Create the client. The first call connects.

        Args:
            url: Address of MongoDB, with options.
            database: The database's name.
            driver: `pymongo` for PyMongo's async client.
            timeout_ms: Longest time of one call; half of it may pass until a primary is found. Reads
                may wait for one twice.
            max_reads_per_user: Reads of one user that run at once. Further ones wait.
            heartbeat_ms: Interval at which the driver checks each member.
        """
        self._primary = PrimaryWatch(timeout_ms / 2000, lambda: self._client.topology_description)
        options: dict[str, Any] = {
            "w": "majority",
            "journal": True,
            "serverSelectionTimeoutMS": timeout_ms // 2,
            "connectTimeoutMS": 5_000,
            "timeoutMS": timeout_ms,
            # Calls do not look for a primary while it is lost, so the monitor has to find it soon.
            "heartbeatFrequencyMS": heartbeat_ms,
            "event_listeners": [self._primary],
            "maxPoolSize": 100,
            "tz_aware": False,
        }
        self._motor = driver == "motor"
        if self._motor:
            from motor.motor_asyncio import AsyncIOMotorClient  # optional dependency

            self._client: Any = AsyncIOMotorClient(url, **options)
        else:
            self._client = AsyncMongoClient(url, **options)
        self._database: Any = self._client.get_database(
            database,
            codec_options=CodecOptions(document_class=dict),
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("majority"),
            write_concern=WriteConcern(w="majority", j=True),
        )
        self._timeout_ms = timeout_ms
        self.reads = ReadQueue(max_reads_per_user)
        """The queue of `find` and `aggregate`."""
        self._direct: DirectCommands | None = None
        if not self._motor:
            self._direct = DirectCommands(self._client, database, timeout_ms / 1000, self.reads)
            self._primary.on_change = self._direct.end_connections_except
        self._refuses_calls = False
        self.trips = self.background_trips = 0

    async def close(self) -> None:
        """End all connections. Waits at most one second for a server that does not answer."""
        if self._direct is not None:
            await self._direct.close()
        with timeout(1.0):
            if (closing := self._client.close()) is not None:
                await closing

    @property
    def is_sharded(self) -> bool:
        """True if MongoDB is a sharded cluster. False until the first call."""
        return bool(self._client.topology_description.topology_type == TOPOLOGY_TYPE.Sharded)

    async def ping(self) -> None:
        """Raise Unreachable unless the primary answers."""
        with translate_errors():
            await self._database.command("ping")

    async def run_admin(self, command: Mapping[str, Any]) -> Document:
        """Run a command on the `admin` database and return its result. Raises Unreachable."""
        with translate_errors():
            return dict(await self._client.admin.command(command))

    async def gather(self, *calls: Awaitable[Any]) -> list[Any]:
        """Run calls concurrently and return their results. Counts as one round trip.

        Raises the first failure after all calls have ended.
        """
        if not _grouped.get():
            count_trips(self)
        token = _grouped.set(True)
        try:
            results = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            _grouped.reset(token)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def refuse_calls(self) -> None:
        """Make all calls raise NotAttempted from now on, because the data needs a later version of Confab."""
        self._refuses_calls = True

    def require_primary(self) -> None:
        """Raise NotAttempted if any call would: for callers that would otherwise have to undo something."""
        if self._refuses_calls:
            raise NotAttempted("the data needs a later version of Confab")
        if self._primary.is_lost:
            raise NotAttempted("MongoDB has no primary")

    def _count(self) -> None:
        self.require_primary()
        if not _grouped.get():
            count_trips(self)

    async def ensure_indexes(self, collection: str, indexes: Sequence[IndexModel]) -> None:
        """Create the missing indexes and wait for their builds, however long they take.

        Idempotent. Raises Unreachable.
        """
        with translate_errors(), timeout(None):
            # As durable as writes. The default would wait for members that are down.
            await self._database[collection].create_indexes(list(indexes), commitQuorum="majority")

    async def drop_index(self, collection: str, name: str) -> None:
        """Drop an index if it exists. Raises Unreachable."""
        with translate_errors():
            if name in await self._database[collection].index_information():
                await self._database[collection].drop_index(name)

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
        """Return all documents that match, in order. One round trip for up to 16 MiB.

        hint: the index to use. seconds: a shorter time limit than usual; TimeLimit is raised when it is over.
        """
        self._count()
        size = limit + 1 if limit else _ROWS_PER_BATCH
        with _translate_outside(session), nullcontext() if seconds is None else timeout(seconds):
            if self._direct is None or session is not None:
                cursor = self._database[collection].find(
                    query, projection, sort=sort, limit=limit, batch_size=size, hint=hint, session=session
                )
                return await self._read_with_driver(cursor, session)
            command: Document = {"find": collection, "filter": query, "batchSize": size}
            if projection is not None:
                command["projection"] = projection
            if sort is not None:
                command["sort"] = dict(sort)
            if limit:
                command["limit"] = limit
            if hint is not None:
                command["hint"] = dict(hint)
            return await self._read(self._direct, command, seconds)

    async def _read(self, direct: DirectCommands, command: Document, seconds: float | None = None) -> list[Document]:
        limit = self._timeout_ms if seconds is None else max(1, int(seconds * 1000))
        limits = {"maxTimeMS": limit, "readConcern": {"level": "majority"}}
        rows: list[Document] = (await direct.read(command | limits))["cursor"]["firstBatch"]
        return rows

    async def _read_with_driver(self, cursor: Any, session: Any = None) -> list[Document]:
        # A transaction holds locks that others may wait for, so its reads do not wait in the queue.
        end = await self.reads.begin() if session is None else None
        try:
            # The cursor of an aggregation is awaited first, except with Motor.
            rows: list[Document] = await (await cursor if isawaitable(cursor) else cursor).to_list(None)
        finally:
            if end is not None:
                end()
        return rows

    async def find_one(
        self, collection: str, query: Mapping[str, Any], *, sort: Sort | None = None, session: Any = None
    ) -> Document | None:
        """Return the first document that matches."""
        if session is None:
            rows = await self.find(collection, query, sort=sort, limit=1)
            return rows[0] if rows else None
        self._count()
        with _translate_outside(session):
            found: Document | None = await self._database[collection].find_one(query, sort=sort, session=session)
        return found

    async def find_as_of_one_moment(self, *queries: tuple[str, Mapping[str, Any]]) -> list[list[Document]]:
        """Return all documents that match each query of a collection, as of one moment on all shards.

        Transactions are seen completely or not at all, which single reads of several shards do not guarantee. One round
        trip for each query. Changes that were acknowledged before are seen.
        """
        with translate_errors():
            return await find_as_of_one_moment(self._client, self._database, queries, self._count)

    async def aggregate(self, collection: str, pipeline: Sequence[Mapping[str, Any]]) -> list[Document]:
        """Return all results of an aggregation pipeline."""
        self._count()
        with translate_errors():
            if self._direct is None:
                return await self._read_with_driver(self._database[collection].aggregate(list(pipeline)))
            cursor = {"batchSize": _ROWS_PER_BATCH}
            return await self._read(
                self._direct, {"aggregate": collection, "pipeline": list(pipeline), "cursor": cursor}
            )

    async def insert_many(self, collection: str, documents: Sequence[Document], session: Any = None) -> None:
        """Insert documents. Raises a BulkWriteError that lists the duplicates; the others are inserted."""
        self._count()
        with _translate_outside(session):
            await self._database[collection].insert_many(list(documents), ordered=False, session=session)

    async def insert_one(self, collection: str, document: Document, session: Any = None) -> None:
        """Insert a document. Raises DuplicateKeyError."""
        self._count()
        with _translate_outside(session):
            await self._database[collection].insert_one(document, session=session)

    async def bulk_write(self, collection: str, operations: Sequence[Any], session: Any = None) -> int:
        """Execute operations in any order. Returns the number of documents that they matched or inserted."""
        self._count()
        with _translate_outside(session):
            result = await self._database[collection].bulk_write(list(operations), ordered=False, session=session)
        return int(result.matched_count + result.upserted_count)

    async def write(self, writes: Sequence[Write], seconds: float | None = None) -> list[WriteOutcome]:
        """Execute writes at the same time, and return their outcomes when all have ended. One round trip.

        As durable as any write, but never repeated by the driver: MongoDB then keeps no record of the write for
        retries, which is most of the cost of small writes. For callers that repeat the whole call themselves. Raises
        Unreachable, also if a statement failed: others were executed then. seconds: a shorter time limit than usual.
        """
        self._count()
        commands = [write.commands() for write in writes]
        with translate_errors():
            answers = iter(await self._execute([command for part in commands for command in part], seconds))
        return [outcome_of(write, [next(answers) for _ in part]) for write, part in zip(writes, commands, strict=True)]

    async def _execute(self, commands: Sequence[Command], seconds: float | None) -> list[Document]:
        """Return the replies to commands that run at the same time. Raises the first failure after all have ended."""
        calls: list[Awaitable[Document]]
        if self._direct is not None:
            limit = {"maxTimeMS": self._timeout_ms if seconds is None else int(seconds * 1000)}
            limited = [c._replace(body=c.body | limit) for c in commands]
            calls = list(self._direct.begin(limited))
        else:
            calls = [
                asyncio.ensure_future(self._database.command(c.body | {c.field: list(c.statements)})) for c in commands
            ]
        answers, failure = list[Document](), None
        for call in calls:
            try:
                answers.append(await call)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return answers

    async def insert_each(self, collection: str, documents: Sequence[Document]) -> Sequence[int]:
        """Insert documents as `write` does. Returns the positions of the duplicates; the others are inserted."""
        (outcome,) = await self.write([Write.inserts(collection, documents)])
        return outcome.duplicates

    async def update_one(self, collection: str, query: Mapping[str, Any], update: Any, *, upsert: bool = False) -> int:
        """Update one document. Returns the number of matches: 0 or 1."""
        self._count()
        with translate_errors():
            result = await self._database[collection].update_one(query, update, upsert=upsert)
        matched: int = result.matched_count
        return matched

    async def delete_one(self, collection: str, query: Mapping[str, Any]) -> int:
        """Delete one document. Returns the number of matches: 0 or 1."""
        self._count()
        with translate_errors():
            result = await self._database[collection].delete_one(query)
        removed: int = result.deleted_count
        return removed

    async def delete_ids(self, collection: str, ids: Sequence[Any], session: Any = None) -> int:
        """Delete the documents with these ids. Returns their number."""
        return await self.delete_each(collection, [{"_id": document} for document in ids], session)

    async def delete_each(
        self, collection: str, queries: Sequence[Mapping[str, Any]], session: Any = None, *, many: bool = False
    ) -> int:
        """Delete one document for each query, or all documents that match it. Returns their number."""
        self._count()
        delete = DeleteMany if many else DeleteOne
        with _translate_outside(session):
            result = await self._database[collection].bulk_write(
                [delete(query) for query in queries], ordered=False, session=session
            )
        deleted: int = result.deleted_count
        return deleted

    async def find_one_and_update(
        self,
        collection: str,
        query: Mapping[str, Any],
        update: Any,
        *,
        upsert: bool = False,
        after: bool = False,
        session: Any = None,
    ) -> Document | None:
        """Update one document and return its state before the update, or after it. None: it did not exist.

        Raises DuplicateKeyError if two upserts of one document collide.
        """
        self._count()
        side = ReturnDocument.AFTER if after else ReturnDocument.BEFORE
        with _translate_outside(session):
            found: Document | None = await self._database[collection].find_one_and_update(
                query, update, upsert=upsert, return_document=side, session=session
            )
        return found

    async def transaction(self, work: Callable[[Any], Awaitable[None]]) -> None:
        """Run `work` in a transaction. Repeat it if MongoDB asks for that, until the timeout of a call.

        work: gets the driver's session, and has to pass it on as `session`.

        Raises DuplicateKeyError and BulkWriteError as its statements do; nothing is stored then. Raises Unreachable.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms / 1000

        async def within(session: Any) -> None:
            # The driver repeats for two minutes, and its own deadlines would leave the transaction open on the server.
            if loop.time() > deadline:
                raise Unreachable("a transaction conflicted with others for too long", "mongodb")
            await work(session)

        self._count()
        token = _grouped.set(True)
        try:
            with translate_errors():
                started = self._client.start_session()
                async with await started if self._motor else started as session:
                    await session.with_transaction(within)
        finally:
            _grouped.reset(token)
