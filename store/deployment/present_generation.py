"""The present generation of Redis, for programs other than servers: they follow it and begin none (ADR 19)."""

from __future__ import annotations

from store.base.errors import Unreachable
from store.deployment.known_shards import CLUSTER
from store.deployment.redis_generations import ROW_FIELDS
from store.deployment.slot_generations import SlotGenerations
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.redis.admission import RedisIdentity
from store.redis.cache import Cache


def use_present_generation(mongo: Mongo, cache: Cache) -> None:
    """Make a cache use the generation that is valid, and never begin another one.

    Connections to another Redis than the deployment's are refused: calls raise Unreachable.
    """

    async def admit(redis: RedisIdentity) -> None:
        rows = await mongo.find(DEPLOYMENT, {"_id": 1}, projection=ROW_FIELDS)
        row = rows[0] if rows else {}
        valid = row.get("runs", {}).get(redis.shard) if redis.shard else row.get("run")
        if valid != redis.run or (redis.shard and row.get("run") != CLUSTER):
            raise Unreachable("the servers do not use this Redis")
        cache.keys.enter(row["gen"], SlotGenerations.from_row(row).by_slot(row["gen"]))

    cache.admit_with(admit)
