"""After a restore of MongoDB: Redis, cursors and clients know of more than the data does, and are to forget it."""

from __future__ import annotations

import secrets

from store.deployment.redis_generations import AWAY, DEPLOYMENT
from store.mongo.client import Mongo

_NOW = {"$toLong": "$$NOW"}
_SECONDS = {"$toLong": {"$divide": [_NOW, 1000]}}


async def begin_anew(mongo: Mongo) -> bool:
    """Gives the deployment another name, so that no cursor from before is good (they lead to a reset), and a generation of Redis that
    never was: they grow by one, and seconds since the epoch are past all that the lost time may have used. To be done while no server
    runs. False: there is no deployment. Raises Unreachable."""
    change = {
        "name": secrets.token_hex(4),
        "gen": {"$max": [_SECONDS, {"$add": [{"$ifNull": ["$gen", 0]}, 1]}]},
        "run": AWAY,
        # Idempotency keys are forgotten with the rest: for a day, MongoDB is asked what they stand for.
        "lost": {"$max": ["$lost", _NOW]},
    }
    return bool(await mongo.update_one(DEPLOYMENT, {"_id": 1}, [{"$set": change}, {"$unset": ["epoch"]}]))
