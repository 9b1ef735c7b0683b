"""Reset of the deployment after MongoDB was restored from a backup, which is older than Redis, cursors and clients."""

from __future__ import annotations

import secrets

from store.deployment.redis_generations import AWAY
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT

_NOW = {"$toLong": "$$NOW"}
_NOW_SECONDS = {"$toLong": {"$divide": [_NOW, 1000]}}


async def reset_after_restore(mongo: Mongo) -> bool:
    """Make all cursors and all contents of Redis invalid. Returns false if there is no deployment.

    No server may be running. Raises Unreachable.

    The deployment gets a new name, which cursors contain: clients with an older cursor get `reset`. The generation gets
    a number that was never used: generations grow by one, so the seconds since the Unix epoch are larger than any
    number since the backup.
    """
    change = {
        "name": secrets.token_hex(4),
        "gen": {"$max": [_NOW_SECONDS, {"$add": [{"$ifNull": ["$gen", 0]}, 1]}]},
        "run": AWAY,
        # Idempotency keys in Redis are lost too: for a day, MongoDB is asked for the message of a key.
        "lost": {"$max": ["$lost", _NOW]},
    }
    return bool(await mongo.update_one(DEPLOYMENT, {"_id": 1}, [{"$set": change}, {"$unset": ["epoch"]}]))
