"""A store for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from store.base.clock import DeploymentClock, SystemClock
from store.build import build_store
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.store import Store
from store.workspaces.policy import PendingChange
from tests.store.policy_changes import open_workspace


@pytest.fixture
async def store(mongo_url: str, emptied_database: str, redis_url: str, redis_prefix: str) -> AsyncIterator[Store]:
    mongo = Mongo(mongo_url, emptied_database)
    cache = Cache(redis_url, read_scripts, prefix=redis_prefix)
    built = build_store(mongo, cache, DeploymentClock(SystemClock()), data_center=0)
    await built.deployment.open()
    # As servers do. A call of a script that Redis does not know is repeated after all others of its round trip.
    await cache.load_scripts()
    await built.deployment.worker_numbers.lease(built.ids, 0)
    yield built
    await cache.close()
    await mongo.close()


@pytest.fixture
async def told(store: Store) -> list[tuple[int, PendingChange]]:
    """Return what is published about the sample workspace: policy version and change."""
    return await open_workspace(store)
