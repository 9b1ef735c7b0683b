"""A store for each test, with a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from store.base.clock import DeploymentClock
from store.build import build_store
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.store import Store
from tests.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(
    mongo_url: str, emptied_database: str, redis_url: str, redis_prefix: str, clock: ManualClock
) -> AsyncIterator[Store]:
    mongo = Mongo(mongo_url, emptied_database)
    cache = Cache(redis_url, read_scripts, prefix=redis_prefix)
    built = build_store(mongo, cache, DeploymentClock(clock), data_center=0)
    built.ids.valid_until_ms = 1 << 60
    yield built
    await cache.close()
    await mongo.close()
