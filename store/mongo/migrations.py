"""Which version the stored data has, and how it is brought to the next one while servers serve (ADR 26).

`deployment` {version: the highest whose rows may be among the data; absent: 1}. `migrations` {_id version, name, at: where it goes on,
rows: seen so far, owner and until: who is at it (until by MongoDB's clock), done: when it ended}.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from pymongo.errors import DuplicateKeyError

from store.base.errors import StoreError, Unreachable
from store.deployment.redis_generations import DEPLOYMENT
from store.mongo.client import Document, Mongo

_log = structlog.get_logger()

COLLECTION = "migrations"

FIRST_VERSION = 1
"""Of data that no migration has touched."""

LEASE_MS = 30_000
"""How long others wait for one that died."""

REST = 4.0
"""For each second of work so many of rest: servers have the database, too."""

_IDLE_SECONDS = 30.0
_NOW = {"$toLong": "$$NOW"}


class NewerData(Exception):
    """The data may hold rows that this version of Confab does not know."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a step of a migration did. at: where the next one begins; None: there is none."""

    rows: int
    at: Any


Step = Callable[[Mongo, Any], Awaitable[Batch]]
"""Brings a few hundred rows from a place on (None: the first) to the new form. Any number of times, with the same result; and
servers of this version and the one before understand both forms."""


@dataclass(frozen=True, slots=True)
class Migration:
    """To a version from the one before. Names are for people."""

    version: int
    name: str
    step: Step


MIGRATIONS: Sequence[Migration] = ()
"""In order. Nothing that was stored so far has to be brought to another form: rows of all earlier versions are read as they are."""


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """How far a migration is. at_work: some process holds it."""

    version: int
    name: str
    rows: int
    begun: bool
    at_work: bool
    done: bool


def known_version(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """The highest that this version of Confab knows."""
    return max((migration.version for migration in migrations), default=FIRST_VERSION)


async def check_version(mongo: Mongo, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Raises NewerData where the data may hold what is not known here. To be asked before anything is read or written."""
    row = await mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
    version, known = row.get("version", FIRST_VERSION), known_version(migrations)
    if version > known:
        raise NewerData(
            f"The data is of version {version}, and this Confab knows none past {known}: start the version of Confab that it was "
            "brought there by, or a later one."
        )


class Migrator:
    """Carries out what is pending: one process at a time, in small steps, going on where the last one stopped."""

    def __init__(self, mongo: Mongo, migrations: Sequence[Migration] = MIGRATIONS, *, rest: float = REST) -> None:
        self._mongo = mongo
        self._migrations = migrations
        self._rest = rest
        self._owner = secrets.token_hex(8)
        self._task: asyncio.Task[None] | None = None
        self.rows = 0
        """Brought to a new form by this process."""

    def open(self) -> None:
        """Begins, in the background, where there is anything to do."""
        if self._migrations:
            self._task = asyncio.create_task(self._keep_running())

    async def close(self) -> None:
        """Stops between two steps. Whoever goes on begins there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def list_progress(self) -> list[MigrationProgress]:
        """All there are, in order."""
        now = {"$addFields": {"now": _NOW}}
        rows = {row["_id"]: row for row in await self._mongo.aggregate(COLLECTION, [now])}
        return [_progress(migration, rows.get(migration.version)) for migration in self._migrations]

    async def run(self, told: Callable[[MigrationProgress], None] = lambda progress: None) -> bool:
        """Does all that can be done now, and tells after each step. False: another process is at it. Raises StoreError."""
        for migration in self._migrations:
            row = await self._take(migration)
            if row is None:
                return False
            while not row.get("done"):
                began = time.monotonic()
                batch = await migration.step(self._mongo, row.get("at"))
                row = await self._keep(migration, batch)
                if row is None:
                    # It took longer than the lease, and another is at it.
                    return False
                self.rows += batch.rows
                progress = _progress(migration, row)
                _log.info("migrating", version=migration.version, name=migration.name, rows=progress.rows)
                told(progress)
                if batch.at is not None:
                    await asyncio.sleep(self._rest * (time.monotonic() - began))
        return True

    async def _keep_running(self) -> None:
        while True:
            try:
                if await self.run():
                    return
            except StoreError as error:
                _log.warning("a migration waits", reason=str(error))
            except Exception:
                _log.exception("a migration failed, and is tried again")
            await asyncio.sleep(_IDLE_SECONDS)

    async def _take(self, migration: Migration) -> Document | None:
        """The migration's row, ours from now on or done. None: it is another process's."""
        # Before the first row of the new form is there, nobody starts who does not know it.
        if not await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$max": {"version": migration.version}}):
            raise Unreachable("the deployment was not opened yet")
        done = await self._mongo.find_one(COLLECTION, {"_id": migration.version, "done": {"$exists": True}})
        if done is not None:
            return done
        free = {"$or": [{"$eq": ["$owner", self._owner]}, {"$lt": [{"$ifNull": ["$until", 0]}, _NOW]}]}
        mine = {"name": migration.name, "owner": self._owner, "until": {"$add": [_NOW, LEASE_MS]}}
        change = {field: {"$cond": [free, value, f"${field}"]} for field, value in mine.items()}
        try:
            row = await self._mongo.find_one_and_update(
                COLLECTION, {"_id": migration.version}, [{"$set": change}], upsert=True, after=True
            )
        except DuplicateKeyError:
            return None
        return row if row is not None and row["owner"] == self._owner else None

    async def _keep(self, migration: Migration, batch: Batch) -> Document | None:
        fields: Document = {
            "at": {"$literal": batch.at},
            "rows": {"$add": [{"$ifNull": ["$rows", 0]}, batch.rows]},
            "until": {"$add": [_NOW, LEASE_MS]},
        }
        if batch.at is None:
            fields |= {"done": _NOW, "until": 0}
        query = {"_id": migration.version, "owner": self._owner}
        return await self._mongo.find_one_and_update(COLLECTION, query, [{"$set": fields}], after=True)


def _progress(migration: Migration, row: Document | None) -> MigrationProgress:
    found = row or {}
    is_done = "done" in found
    at_work = not is_done and found.get("until", 0) > found.get("now", 0)
    return MigrationProgress(migration.version, migration.name, found.get("rows", 0), row is not None, at_work, is_done)
