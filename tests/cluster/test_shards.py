"""Shards join a cluster and are replaced: the data of a new one counts, that of a replaced one does not."""

from __future__ import annotations

import pytest

from store.base.clock import DeploymentClock, SystemClock
from store.base.errors import Unreachable
from store.build import build_store
from store.deployment.redis_generations import Generations
from store.mongo.client import Mongo
from store.redis.admission import RedisIdentity
from store.redis.cache import Cache
from store.scripts import read_scripts


def _generations(mongo: Mongo) -> Generations:
    cache = Cache("redis+cluster://127.0.0.1:1", read_scripts)
    return build_store(mongo, cache, DeploymentClock(SystemClock()), data_center=0).deployment.generations


async def test_a_new_shard_changes_nothing_and_a_replaced_one_starts_over(
    mongo_url: str, mongo_database_name: str
) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    one, two = _generations(mongo), _generations(mongo)
    with pytest.raises(Unreachable, match="not opened"):
        await one.admit(RedisIdentity("run a", "first"))
    await mongo.insert_one("deployment", {"_id": 1})
    for generations in (one, two):
        await generations.admit(RedisIdentity("run a", "first"))
        await generations.admit(RedisIdentity("run b", "second"))
    assert (one.number, two.number) == (1, 1)
    await one.admit(RedisIdentity("run c", "second"))
    assert one.number == 2
    # This process knows the first shard from the former generation.
    await one.admit(RedisIdentity("run a", "first"))
    await two.admit(RedisIdentity("run c", "second"))
    assert (one.number, two.number) == (2, 2)
    await one.admit(RedisIdentity("run d", "first"))
    assert one.number == 3
    await mongo.close()
