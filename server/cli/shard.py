"""`confab shard`: how MongoDB's collections are divided among shards, printed or done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from server.errors import CommandError, mongo_failed
from server.settings import Settings, redact_url
from store.base.errors import Unreachable
from store.mongo.client import Mongo
from store.mongo.sharding import SHARD_KEYS, NotSharded, shard, shell_lines


def print_lines(settings: Settings, tell: Callable[[str], None]) -> None:
    """What to type into MongoDB's shell on a mongos."""
    for line in shell_lines(settings.mongo_database):
        tell(line)


def run_shard(settings: Settings, tell: Callable[[str], None]) -> None:
    """Divides the collections. Raises CommandError where that can't be: MongoDB is not there, or not one of shards."""
    asyncio.run(_run(settings, tell))


async def _run(settings: Settings, tell: Callable[[str], None]) -> None:
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    try:
        noted = await shard(mongo, settings.mongo_database)
    except NotSharded as error:
        raise CommandError(
            f"MongoDB at {redact_url(settings.mongo_url)} is not sharded: --apply needs the address of a mongos. Nothing was changed."
        ) from error
    except Unreachable as error:
        raise mongo_failed(error) from error
    finally:
        await mongo.close()
    if noted:
        tell(f"Noted the conversations of {noted} messages that were stored before.")
    for collection, key in SHARD_KEYS.items():
        tell(f"{settings.mongo_database}.{collection} is divided by {', '.join(key)}.")
