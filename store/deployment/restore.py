"""Reset of the deployment after MongoDB was restored from a backup, which is older than Redis, cursors and clients."""

from __future__ import annotations

import secrets

from store.deployment.redis_generations import AWAY
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT, SEARCH
from store.mongo.mongo_clock import MONGO_NOW, MongoClock
from store.search.index_states import INDEX_STATE, MAX_STORE_DELAY_MS, IndexStates

_NOW_SECONDS = {"$toLong": {"$divide": [MONGO_NOW, 1000]}}


async def reset_after_restore(mongo: Mongo) -> bool:
    """Make all cursors and all contents of Redis invalid. Returns false if there is no deployment.

    No server may be running. Raises Unreachable.

    The deployment gets a new name, which cursors contain: clients with an older cursor get `reset`. The generation gets
    a number that was never used: generations grow by one, so the seconds since the Unix epoch are larger than any
    number since the backup.

    Messages around the time of the backup are indexed again for the search; all messages, if the backup has no index.
    """
    change = {
        "name": secrets.token_hex(4),
        "gen": {"$max": [_NOW_SECONDS, {"$add": [{"$ifNull": ["$gen", 0]}, 1]}]},
        "run": AWAY,
        # Idempotency keys in Redis are lost too: for a day, MongoDB is asked for the message of a key.
        "lost": {"$max": ["$lost", MONGO_NOW]},
    }
    if not await mongo.update_one(DEPLOYMENT, {"_id": 1}, [{"$set": change}, {"$unset": ["epoch"]}]):
        return False
    if not await mongo.find(SEARCH, {}, projection={"_id": 1}, limit=1):
        await mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$unset": {INDEX_STATE: ""}})
    # Messages that waited for the index when the backup was made are in the backup, but their notes are not.
    rows = await mongo.find(DEPLOYMENT, {"_id": 1}, projection={"time": 1, "now": MONGO_NOW})
    now_ms = int(rows[0]["now"])
    time_ms = int(rows[0].get("time", now_ms))
    states = IndexStates(mongo, MongoClock(max(time_ms, now_ms)), owner="", find_epoch=lambda: "")
    await states.extend(time_ms - MAX_STORE_DELAY_MS)
    return True
