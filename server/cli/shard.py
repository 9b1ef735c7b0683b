"""`confab shard`: shards MongoDB's collections, or prints the commands for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from server.errors import CommandError, database_error
from server.settings import Settings, redact_url
from store.base.errors import Unreachable
from store.deployment.sharding import NotSharded, shard
from store.mongo.client import Mongo
from store.mongo.sharding import SHARD_KEYS, shell_lines


def print_commands(settings: Settings, report: Callable[[str], None]) -> None:
    """Print the commands for MongoDB's shell on a mongos."""
    for line in shell_lines(settings.mongo_database):
        report(line)


def run_shard(settings: Settings, report: Callable[[str], None]) -> None:
    """Shard the collections. Raises CommandError if MongoDB is unreachable or is not a sharded cluster."""
    asyncio.run(_run(settings, report))


async def _run(settings: Settings, report: Callable[[str], None]) -> None:
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        registered = await shard(mongo, settings.mongo_database)
    except NotSharded as error:
        raise CommandError(
            f"MongoDB at {redact_url(settings.mongo_url)} is not a sharded cluster: set CONFAB_MONGO_URL to a mongos. "
            "Nothing was changed."
        ) from error
    except Unreachable as error:
        raise database_error(error) from error
    finally:
        await mongo.close()
    if registered:
        report(f"Registered the conversations of {registered} messages that were stored before.")
    for collection, key in SHARD_KEYS.items():
        report(f"{settings.mongo_database}.{collection} is sharded by {', '.join(key)}.")
