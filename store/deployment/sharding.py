"""Shards the collections of a deployment, on a mongos (ADR 22)."""

from __future__ import annotations

from pymongo import IndexModel

from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.indexes import ensure_indexes
from store.mongo.sharding import SHARD_KEYS, shard_commands


class NotSharded(Exception):
    """Raised if MongoDB is not a sharded cluster."""


async def shard(mongo: Mongo, database: str) -> int:
    """Create the indexes and shard the collections. Idempotent. Returns the number of messages added to `origins`.

    Raises:
        NotSharded: MongoDB is not a sharded cluster. Nothing was changed.
        Unreachable: MongoDB does not answer, or a collection has another shard key already.
    """
    await mongo.ping()
    if not mongo.is_sharded:
        raise NotSharded
    await ensure_indexes(mongo)
    for collection, key in SHARD_KEYS.items():
        if "hashed" in key.values():
            await mongo.ensure_indexes(collection, [IndexModel(list(key.items()))])
    added = await OriginStore(mongo).fill()
    for command in shard_commands(database):
        await mongo.run_admin(command)
    return added
