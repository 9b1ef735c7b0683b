"""MongoDB: the one module that calls its driver, so that which driver is a setting.

Every write is acknowledged by a majority with its journal, every read comes from the primary and sees only what a
majority holds. Where there has been no primary for some seconds every call raises Away at once. `trips` counts the round trips a caller waits for; calls made `together` count once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient, IndexModel, ReadPreference, ReturnDocument, timeout
from pymongo.monitoring import (
    TopologyClosedEvent,
    TopologyDescriptionChangedEvent,
    TopologyListener,
    TopologyOpenedEvent,
)
from pymongo.read_concern import ReadConcern
from pymongo.topology_description import TOPOLOGY_TYPE
from pymongo.write_concern import WriteConcern

from store.base.errors import Away, Unreachable, translated

Document = dict[str, Any]
Sort = Sequence[tuple[str, int]]

_DOCUMENTS_A_COMMAND = 100
"""The longest messages that mention as many as they may fit into one command so."""

_UPDATES_A_COMMAND = 1_000
_DUPLICATE_KEY = 11000
_HEARTBEAT_MS = 1_000
_DURABLE = {"w": "majority", "j": True}


class Update(NamedTuple):
    """One of the updates of `Mongo.update_each`."""

    query: Mapping[str, Any]
    change: Mapping[str, Any]
    upsert: bool = False


_grouped: ContextVar[bool] = ContextVar("mongo_grouped", default=False)


def _translated_outside(session: Any) -> AbstractContextManager[None]:
    """Within a transaction the driver needs to see its own errors: it repeats the whole for some of them."""
    return translated() if session is None else nullcontext()


class _Primary(TopologyListener):
    """Whether there has been no primary for longer than one is waited for: then nobody waits until there is one again."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None

    @property
    def is_lost(self) -> bool:
        """Asked before each call: from the first on, since the driver looks for no primary before that."""
        if self._since is None:
            return False
        if self._since == math.inf:
            self._since = time.monotonic()
        return time.monotonic() - self._since > self._patience

    def opened(self, event: TopologyOpenedEvent) -> None:
        self._since = math.inf

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        if event.new_description.has_writable_server():
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()

    def closed(self, event: TopologyClosedEvent) -> None:
        return


class Mongo:
    """A database. `driver` is `pymongo` (its own async client) or `motor`."""

    def __init__(
        self,
        url: str,
        database: str,
        driver: Literal["pymongo", "motor"] = "pymongo",
        *,
        timeout_ms: int = 10_000,
    ) -> None:
        self._primary = _Primary(timeout_ms / 2000)
        options: dict[str, Any] = {
            "w": "majority",
            "journal": True,
            "serverSelectionTimeoutMS": timeout_ms // 2,
            "connectTimeoutMS": 5_000,
            "timeoutMS": timeout_ms,
            # Nothing that is asked looks for a primary while none is known: this has to, and soon.
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
        self._is_shut = False
        self.trips = 0

    async def close(self) -> None:
        """Ends all connections. A server that doesn't answer keeps this waiting for a second, and not for a whole call."""
        with timeout(1.0):
            closing = self._client.close()
            if closing is not None:
                await closing

    @property
    def is_sharded(self) -> bool:
        """Whether it is a cluster of shards. False until something was asked of it."""
        return bool(self._client.topology_description.topology_type == TOPOLOGY_TYPE.Sharded)

    async def ping(self) -> None:
        """Raises Unreachable unless the primary answers."""
        with translated():
            await self._database.command("ping")

    async def run_admin(self, command: Mapping[str, Any]) -> Document:
        """The answer to a command about the whole of MongoDB."""
        with translated():
            answer: Document = await self._client.admin.command(command)
        return answer

    async def together(self, *calls: Awaitable[Any]) -> list[Any]:
        """Runs calls at once and waits for all of them: one round trip. The first failure is raised after all ended."""
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

    def shut(self) -> None:
        """Nothing is read or written any more: all calls raise Away."""
        self._is_shut = True

    def require_primary(self) -> None:
        """Raises Away where any call would: for who must undo something if nothing can be stored."""
        if self._is_shut:
            raise Away("the data is not for this version of Confab")
        if self._primary.is_lost:
            raise Away("MongoDB has no primary")

    def _count(self) -> None:
        self.require_primary()
        if not _grouped.get():
            self.trips += 1

    async def ensure_indexes(self, collection: str, indexes: Sequence[IndexModel]) -> None:
        """Creates what is missing, however long that takes. Idempotent."""
        with translated(), timeout(None):
            # As durable as writes are, and no more: a member that is away would hold up the build.
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
        """All documents that match, in order. Read in one batch as far as 16 MiB reach. hint: the index to use."""
        self._count()
        with translated():
            cursor = self._database[collection].find(
                query, projection, sort=sort, limit=limit, batch_size=limit + 1 if limit else 10_000, hint=hint
            )
            rows: list[Document] = await cursor.to_list(None)
        return rows

    async def find_one(
        self, collection: str, query: Mapping[str, Any], *, sort: Sort | None = None, session: Any = None
    ) -> Document | None:
        """The first document that matches."""
        self._count()
        with _translated_outside(session):
            found: Document | None = await self._database[collection].find_one(query, sort=sort, session=session)
        return found

    async def aggregate(self, collection: str, pipeline: Sequence[Mapping[str, Any]]) -> list[Document]:
        """A pipeline's whole result."""
        self._count()
        with translated():
            cursor = self._database[collection].aggregate(list(pipeline))
            if not self._motor:
                cursor = await cursor
            rows: list[Document] = await cursor.to_list(None)
        return rows

    async def insert_many(self, collection: str, documents: Sequence[Document], session: Any = None) -> None:
        """Inserts all that can be. Raises BulkWriteError naming those that collide with what is there."""
        self._count()
        with _translated_outside(session):
            await self._database[collection].insert_many(list(documents), ordered=False, session=session)

    async def insert_one(self, collection: str, document: Document, session: Any = None) -> None:
        """Inserts one. Raises DuplicateKeyError where it collides."""
        self._count()
        with _translated_outside(session):
            await self._database[collection].insert_one(document, session=session)

    async def bulk_write(self, collection: str, operations: Sequence[Any], session: Any = None) -> int:
        """Carries out all operations, in no particular order. Answers how many documents they matched or made."""
        self._count()
        with _translated_outside(session):
            result = await self._database[collection].bulk_write(list(operations), ordered=False, session=session)
        touched: int = result.matched_count + result.upserted_count
        return touched

    async def insert_each(self, collection: str, documents: Sequence[Document]) -> list[int]:
        """Inserts all that can be. Answers the places of those that collide with what is there.

        As durable as any write, and never repeated by the driver: then MongoDB needs no memory of it, which is most of what
        small writes cost there. For callers who repeat the whole themselves.
        """
        self._count()
        starts = range(0, len(documents), _DOCUMENTS_A_COMMAND)
        parts = [documents[start : start + _DOCUMENTS_A_COMMAND] for start in starts]
        commands = [self._write({"insert": collection, "documents": part}) for part in parts]
        failures = await asyncio.gather(*commands)
        return [start + index for start, found in zip(starts, failures, strict=True) for index in found]

    async def update_each(self, collection: str, updates: Sequence[Update]) -> None:
        """Carries out all updates, in no particular order, as `insert_each` does. Raises Unreachable where upserts of one document
        met: then some were not carried out."""
        self._count()
        statements = [
            {"q": query, "u": change, "upsert": True} if upsert else {"q": query, "u": change}
            for query, change, upsert in updates
        ]
        starts = range(0, len(statements), _UPDATES_A_COMMAND)
        parts = [statements[start : start + _UPDATES_A_COMMAND] for start in starts]
        if any(await asyncio.gather(*(self._write({"update": collection, "updates": part}) for part in parts))):
            raise Unreachable("upserts of one document met")

    async def _write(self, command: Document) -> list[int]:
        """The places of what collided. Whatever else went wrong raises Unreachable."""
        with translated():
            answer = await self._database.command(command | {"ordered": False, "writeConcern": _DURABLE})
        failures = answer.get("writeErrors", ())
        doubt = answer.get("writeConcernError") or next((f for f in failures if f["code"] != _DUPLICATE_KEY), None)
        if doubt is not None:
            raise Unreachable(f"a batch of writes was not confirmed: code {doubt.get('code')}")
        return [failure["index"] for failure in failures]

    async def bulk_write_aside(self, collection: str, operations: Sequence[Any]) -> None:
        """Like bulk_write, for work that nobody waits for."""
        self.trips -= 1
        await self.bulk_write(collection, operations)

    async def update_one(self, collection: str, query: Mapping[str, Any], update: Any, *, upsert: bool = False) -> int:
        """Changes one document. Answers how many matched."""
        self._count()
        with translated():
            result = await self._database[collection].update_one(query, update, upsert=upsert)
        matched: int = result.matched_count
        return matched

    async def delete_one(self, collection: str, query: Mapping[str, Any]) -> int:
        """Removes one document. Answers how many matched."""
        self._count()
        with translated():
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
        """Changes one document and answers it as it was before, or is after. Raises DuplicateKeyError if an upsert collides."""
        self._count()
        side = ReturnDocument.AFTER if after else ReturnDocument.BEFORE
        with _translated_outside(session):
            found: Document | None = await self._database[collection].find_one_and_update(
                query, update, upsert=upsert, return_document=side, session=session
            )
        return found

    async def transaction(self, work: Callable[[Any], Awaitable[None]]) -> None:
        """Runs work in a transaction, again where MongoDB asks for it, for as long as any call may take. Work passes its
        argument on as `session`.

        Raises DuplicateKeyError and BulkWriteError as the statements in it do; nothing is stored then.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds

        async def within(session: Any) -> None:
            # The driver's own limit is two minutes, and its deadlines would leave the transaction open at the server.
            if loop.time() > deadline:
                raise Unreachable("a transaction met others' for too long")
            await work(session)

        self._count()
        token = _grouped.set(True)
        try:
            with translated():
                started = self._client.start_session()
                session = await started if self._motor else started
                async with session:
                    await session.with_transaction(within)
        finally:
            _grouped.reset(token)
