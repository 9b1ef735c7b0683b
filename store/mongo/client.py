"""MongoDB. This is the only module that calls its driver, so the driver can be a setting.

Every write is acknowledged by a majority, with its journal. Every read comes from the primary and sees only what a
majority has. If MongoDB has had no primary for some seconds, every call raises NotAttempted at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient, IndexModel, ReadPreference, ReturnDocument, timeout
from pymongo.read_concern import ReadConcern
from pymongo.topology_description import TOPOLOGY_TYPE
from pymongo.write_concern import WriteConcern

from store.base.errors import NotAttempted, Unreachable, translate_errors
from store.mongo.primary import PrimaryWatch

Document = dict[str, Any]
Sort = Sequence[tuple[str, int]]

_DOCUMENTS_PER_COMMAND = 100
"""This many messages of the largest size, with the most mentions, fit into one command."""

_UPDATES_PER_COMMAND = 1_000
_DUPLICATE_KEY = 11000
_HEARTBEAT_MS = 1_000
_DURABLE = {"w": "majority", "j": True}


class Update(NamedTuple):
    """An update of one document, for `Mongo.update_each`."""

    query: Mapping[str, Any]
    change: Mapping[str, Any]
    upsert: bool = False


_grouped: ContextVar[bool] = ContextVar("mongo_grouped", default=False)


def _translate_outside(session: Any) -> AbstractContextManager[None]:
    # In a transaction the driver has to see its own errors: it repeats the transaction after some of them.
    return translate_errors() if session is None else nullcontext()


class Mongo:
    """One database.

    `trips` counts the round trips that callers wait for. Calls made through `gather` count once.
    """

    def __init__(
        self,
        url: str,
        database: str,
        driver: Literal["pymongo", "motor"] = "pymongo",
        *,
        timeout_ms: int = 10_000,
    ) -> None:
        """Create the client. The first call connects.

        Args:
            url: Address of MongoDB, with options.
            database: The database's name.
            driver: `pymongo` for PyMongo's async client.
            timeout_ms: Longest time of one call; half of it may pass until a primary is found.
        """
        self._primary = PrimaryWatch(timeout_ms / 2000)
        options: dict[str, Any] = {
            "w": "majority",
            "journal": True,
            "serverSelectionTimeoutMS": timeout_ms // 2,
            "connectTimeoutMS": 5_000,
            "timeoutMS": timeout_ms,
            # Calls do not look for a primary while it is lost, so the monitor has to find it soon.
            "heartbeatFrequencyMS": _HEARTBEAT_MS,
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
        self._timeout_seconds = timeout_ms / 1000
        self._refuses_calls = False
        self.trips = 0

    async def close(self) -> None:
        """End all connections. Waits at most one second for a server that does not answer."""
        with timeout(1.0):
            closing = self._client.close()
            if closing is not None:
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
            answer: Document = await self._client.admin.command(command)
        return answer

    async def gather(self, *calls: Awaitable[Any]) -> list[Any]:
        """Run calls concurrently and return their results. Counts as one round trip.

        Raises the first failure after all calls have ended.
        """
        if not _grouped.get():
            self.trips += 1
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
        """Raise NotAttempted if any call would.

        For callers that would otherwise have to undo something.
        """
        if self._refuses_calls:
            raise NotAttempted("the data needs a later version of Confab")
        if self._primary.is_lost:
            raise NotAttempted("MongoDB has no primary")

    def _count(self) -> None:
        self.require_primary()
        if not _grouped.get():
            self.trips += 1

    async def ensure_indexes(self, collection: str, indexes: Sequence[IndexModel]) -> None:
        """Create the missing indexes and wait for their builds, however long they take.

        Idempotent. Raises Unreachable.
        """
        with translate_errors(), timeout(None):
            # As durable as writes. The default would wait for members that are down.
            await self._database[collection].create_indexes(list(indexes), commitQuorum="majority")

    async def find(
        self,
        collection: str,
        query: Mapping[str, Any],
        *,
        projection: Mapping[str, Any] | None = None,
        sort: Sort | None = None,
        limit: int = 0,
        hint: Sort | None = None,
    ) -> list[Document]:
        """Return all documents that match, in order. One round trip for up to 16 MiB. hint: the index to use."""
        self._count()
        with translate_errors():
            cursor = self._database[collection].find(
                query, projection, sort=sort, limit=limit, batch_size=limit + 1 if limit else 10_000, hint=hint
            )
            rows: list[Document] = await cursor.to_list(None)
        return rows

    async def find_one(
        self, collection: str, query: Mapping[str, Any], *, sort: Sort | None = None, session: Any = None
    ) -> Document | None:
        """Return the first document that matches."""
        self._count()
        with _translate_outside(session):
            found: Document | None = await self._database[collection].find_one(query, sort=sort, session=session)
        return found

    async def aggregate(self, collection: str, pipeline: Sequence[Mapping[str, Any]]) -> list[Document]:
        """Return all results of an aggregation pipeline."""
        self._count()
        with translate_errors():
            cursor = self._database[collection].aggregate(list(pipeline))
            if not self._motor:
                cursor = await cursor
            rows: list[Document] = await cursor.to_list(None)
        return rows

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
        touched: int = result.matched_count + result.upserted_count
        return touched

    async def insert_each(self, collection: str, documents: Sequence[Document]) -> list[int]:
        """Insert documents. Returns the positions of the duplicates; the others are inserted.

        As durable as any write, but never repeated by the driver: MongoDB then keeps no record of the write for
        retries, which is most of the cost of small writes. For callers that repeat the whole call themselves. Raises
        Unreachable.
        """
        self._count()
        starts = range(0, len(documents), _DOCUMENTS_PER_COMMAND)
        parts = [documents[start : start + _DOCUMENTS_PER_COMMAND] for start in starts]
        commands = [self._write({"insert": collection, "documents": part}) for part in parts]
        failures = await asyncio.gather(*commands)
        return [start + index for start, found in zip(starts, failures, strict=True) for index in found]

    async def update_each(self, collection: str, updates: Sequence[Update]) -> None:
        """Execute updates in any order; like `insert_each`, never repeated by the driver.

        Raises Unreachable, also if two upserts of one document collided: some of the updates were not executed then.
        """
        self._count()
        statements = [
            {"q": query, "u": change, "upsert": True} if upsert else {"q": query, "u": change}
            for query, change, upsert in updates
        ]
        starts = range(0, len(statements), _UPDATES_PER_COMMAND)
        parts = [statements[start : start + _UPDATES_PER_COMMAND] for start in starts]
        if any(await asyncio.gather(*(self._write({"update": collection, "updates": part}) for part in parts))):
            raise Unreachable("upserts of one document collided")

    async def _write(self, command: Document) -> list[int]:
        """Return the positions of duplicate keys. Raises Unreachable for any other failure."""
        with translate_errors():
            answer = await self._database.command(command | {"ordered": False, "writeConcern": _DURABLE})
        failures = answer.get("writeErrors", ())
        cause = answer.get("writeConcernError") or next((f for f in failures if f["code"] != _DUPLICATE_KEY), None)
        if cause is not None:
            raise Unreachable(f"a batch of writes was not confirmed: code {cause.get('code')}")
        return [failure["index"] for failure in failures]

    async def bulk_write_in_background(self, collection: str, operations: Sequence[Any]) -> None:
        """Like `bulk_write`, for work that no request waits for."""
        self.trips -= 1
        await self.bulk_write(collection, operations)

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
        deadline = loop.time() + self._timeout_seconds

        async def within(session: Any) -> None:
            # The driver repeats for two minutes, and its own deadlines would leave the transaction open on the server.
            if loop.time() > deadline:
                raise Unreachable("a transaction conflicted with others for too long")
            await work(session)

        self._count()
        token = _grouped.set(True)
        try:
            with translate_errors():
                started = self._client.start_session()
                session = await started if self._motor else started
                async with session:
                    await session.with_transaction(within)
        finally:
            _grouped.reset(token)
