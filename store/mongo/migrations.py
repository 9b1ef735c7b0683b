"""Versions of the stored data, and migrations from each version to the next while servers serve (ADR 26).

Field of the row `deployment` {_id 1}:
    version  the highest version of which rows may exist; absent: 1

Fields of a row of `migrations` {_id version}:
    name   description for operators
    at     where the next batch begins
    rows   number of rows processed so far
    owner  the process that runs the migration
    until  ms by MongoDB's clock: when another process may take over
    done   when the migration ended
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
from store.mongo.client import Document, Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW

_log = structlog.get_logger()

COLLECTION = "migrations"

FIRST_VERSION = 1
"""The version of data before any migration."""

LEASE_MS = 30_000
"""Other processes take over from one that has not continued for this time."""

REST = 4.0
"""Seconds of pause for each second of work, so that servers can use the database."""

_IDLE_SECONDS = 30.0


class NewerData(Exception):
    """The data may contain rows that this version of Confab does not know."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Result of one step of a migration. at: where the next step begins; None: the migration is complete."""

    rows: int
    at: Any


Step = Callable[[Mongo, Any], Awaitable[Batch]]
"""Converts a few hundred rows to the new form, beginning at a position (None: at the first row).

A step may be repeated with the same result. Servers of this version and of the one before understand both forms.
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """Converts the data from the version before to `version`."""

    version: int
    name: str
    step: Step


MIGRATIONS: Sequence[Migration] = ()
"""In the order of versions. Empty: rows of all earlier versions are read as they are."""


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """Progress of a migration. is_running: a process is running it."""

    version: int
    name: str
    rows: int
    begun: bool
    is_running: bool
    done: bool


def known_version(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the highest version that this Confab knows."""
    return max((migration.version for migration in migrations), default=FIRST_VERSION)


async def check_version(mongo: Mongo, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Raise NewerData if the data may contain rows of a later version.

    Call it before anything is read or written.
    """
    row = await mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
    version, known = row.get("version", FIRST_VERSION), known_version(migrations)
    if version > known:
        raise NewerData(
            f"The data has version {version}, but this Confab supports versions up to {known}. Start the version of "
            "Confab that migrated the data, or a later one."
        )


class Migrator:
    """Runs pending migrations: one process at a time, in small steps, continuing where the last process stopped."""

    def __init__(self, mongo: Mongo, migrations: Sequence[Migration] = MIGRATIONS, *, rest: float = REST) -> None:
        self._mongo = mongo
        self._migrations = migrations
        self._rest = rest
        self._owner = secrets.token_hex(8)
        self._task: asyncio.Task[None] | None = None
        self.rows = 0
        """Rows converted by this process."""

    def open(self) -> None:
        """Start in the background, if there are any migrations."""
        if self._migrations:
            self._task = asyncio.create_task(self._keep_running())

    async def close(self) -> None:
        """Stop between two steps. Another process continues there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def list_progress(self) -> list[MigrationProgress]:
        """Return the progress of all migrations, in order."""
        now = {"$addFields": {"now": MONGO_NOW}}
        rows = {row["_id"]: row for row in await self._mongo.aggregate(COLLECTION, [now])}
        return [_progress(migration, rows.get(migration.version)) for migration in self._migrations]

    async def run(self, on_progress: Callable[[MigrationProgress], None] = lambda progress: None) -> bool:
        """Run all pending migrations. Returns false if another process runs one. on_progress: called after each step.

        Raises StoreError.
        """
        for migration in self._migrations:
            row = await self._take(migration)
            if row is None:
                return False
            while not row.get("done"):
                began = time.monotonic()
                batch = await migration.step(self._mongo, row.get("at"))
                row = await self._save(migration, batch)
                if row is None:
                    # The step took longer than the lease, and another process has taken over.
                    return False
                self.rows += batch.rows
                progress = _progress(migration, row)
                _log.info("migration_progress", version=migration.version, name=migration.name, rows=progress.rows)
                on_progress(progress)
                if batch.at is not None:
                    await asyncio.sleep(self._rest * (time.monotonic() - began))
        return True

    async def _keep_running(self) -> None:
        while True:
            try:
                if await self.run():
                    return
            except StoreError as error:
                _log.warning("migration_waiting", reason=str(error))
            except Exception:
                _log.exception("migration_failed")
            await asyncio.sleep(_IDLE_SECONDS)

    async def _take(self, migration: Migration) -> Document | None:
        """Return the row of a migration that is done, or that this process runs from now on.

        None: another process runs it.
        """
        # Store the version before the first row has the new form, so that no server starts that does not know it.
        if not await self._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$max": {"version": migration.version}}):
            raise Unreachable("the deployment was not opened yet")
        done = await self._mongo.find_one(COLLECTION, {"_id": migration.version, "done": {"$exists": True}})
        if done is not None:
            return done
        free = {"$or": [{"$eq": ["$owner", self._owner]}, {"$lt": [{"$ifNull": ["$until", 0]}, MONGO_NOW]}]}
        mine = {"name": migration.name, "owner": self._owner, "until": {"$add": [MONGO_NOW, LEASE_MS]}}
        change = {field: {"$cond": [free, value, f"${field}"]} for field, value in mine.items()}
        try:
            row = await self._mongo.find_one_and_update(
                COLLECTION, {"_id": migration.version}, [{"$set": change}], upsert=True, after=True
            )
        except DuplicateKeyError:
            return None
        return row if row is not None and row["owner"] == self._owner else None

    async def _save(self, migration: Migration, batch: Batch) -> Document | None:
        fields: Document = {
            "at": {"$literal": batch.at},
            "rows": {"$add": [{"$ifNull": ["$rows", 0]}, batch.rows]},
            "until": {"$add": [MONGO_NOW, LEASE_MS]},
        }
        if batch.at is None:
            fields |= {"done": MONGO_NOW, "until": 0}
        query = {"_id": migration.version, "owner": self._owner}
        return await self._mongo.find_one_and_update(COLLECTION, query, [{"$set": fields}], after=True)


def _progress(migration: Migration, row: Document | None) -> MigrationProgress:
    found = row or {}
    is_done = "done" in found
    is_running = not is_done and found.get("until", 0) > found.get("now", 0)
    return MigrationProgress(
        migration.version, migration.name, found.get("rows", 0), row is not None, is_running, is_done
    )
