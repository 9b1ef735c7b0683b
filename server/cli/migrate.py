"""`confab migrate` and `confab restored`: which version the stored data has, and that it is older than it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from server.errors import CommandError, mongo_failed
from server.settings import Settings
from store.base.errors import StoreError
from store.deployment.restore import reset_after_restore
from store.mongo.client import Mongo
from store.mongo.migrations import (
    MIGRATIONS,
    Migration,
    MigrationProgress,
    Migrator,
    NewerData,
    check_version,
    known_version,
)


async def migrate_data(
    settings: Settings, *, run: bool, tell: Callable[[str], None], migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Tells how far each migration is; run: and carries out what is pending. Raises CommandError."""
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        await check_version(mongo, migrations)
        migrator = Migrator(mongo, migrations)
        if run and not await migrator.run(lambda progress: tell(_line(progress))):
            raise CommandError("Another process is at it: ask again in a minute.")
        found = await migrator.list_progress()
        for progress in found:
            tell(_line(progress))
        if all(progress.done for progress in found):
            tell(
                f"The data is of version {known_version(migrations)}, the newest that this Confab knows. Nothing is to be done."
            )
    except NewerData as newer:
        raise CommandError(str(newer)) from newer
    except StoreError as error:
        raise mongo_failed(error) from error
    finally:
        await mongo.close()


async def tell_restored(settings: Settings) -> None:
    """MongoDB was restored: what Redis holds and cursors from before count no more. Raises CommandError."""
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        if not await reset_after_restore(mongo):
            raise CommandError(f"There is no deployment of Confab in the database {settings.mongo_database}.")
    except StoreError as error:
        raise mongo_failed(error) from error
    finally:
        await mongo.close()


def _line(progress: MigrationProgress) -> str:
    state = "done" if progress.done else "under way" if progress.at_work else "begun" if progress.begun else "pending"
    return f"version {progress.version} ({progress.name}): {state}, {progress.rows:,} rows"
