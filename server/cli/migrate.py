"""`confab migrate` and `confab restored`: commands for stored data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from server.cli.store_errors import store_errors_as_command_errors
from server.errors import CommandError
from server.settings import Settings
from store.deployment.restore import reset_after_restore
from store.mongo.client import Mongo
from store.mongo.migrations import (
    MIGRATIONS,
    Migration,
    MigrationProgress,
    Migrator,
    check_version,
    known_version,
)


async def migrate_data(
    settings: Settings, *, run: bool, report: Callable[[str], None], migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Report the progress of each migration. With `run`, run the pending ones first. Raises CommandError."""
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        with store_errors_as_command_errors():
            await check_version(mongo, migrations)
            migrator = Migrator(mongo, migrations)
            if run and not await migrator.run(lambda progress: report(_describe(progress))):
                raise CommandError("Another process is running the migrations: try again in a minute.")
            all_progress = await migrator.list_progress()
            for progress in all_progress:
                report(_describe(progress))
            if all(progress.done for progress in all_progress):
                report(f"The data has version {known_version(migrations)}, the newest version. There is nothing to do.")
    finally:
        await mongo.close()


async def mark_restored(settings: Settings) -> None:
    """Invalidate the contents of Redis and all cursors after MongoDB was restored. Raises CommandError."""
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        with store_errors_as_command_errors():
            if not await reset_after_restore(mongo):
                raise CommandError(
                    f"The database {settings.mongo_database} has no deployment of Confab: check CONFAB_MONGO_DATABASE."
                )
    finally:
        await mongo.close()


def _describe(progress: MigrationProgress) -> str:
    state = (
        "done" if progress.done else "running" if progress.is_running else "started" if progress.begun else "pending"
    )
    return f"version {progress.version} ({progress.name}): {state}, {progress.rows:,} rows"
