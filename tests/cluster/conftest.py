"""A Redis Cluster of the test module: its slots move, and its nodes die."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from store.redis.cache import Cache
from store.scripts import read_scripts
from tests.cluster.nodes import OwnCluster, redis_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    """Three primaries, the first of them with a replica."""
    with redis_cluster(primaries=3, replicas=1, node_timeout_ms=800) as cluster:
        yield cluster


@pytest.fixture
async def cache(cluster: OwnCluster, request: pytest.FixtureRequest) -> AsyncIterator[Cache]:
    cache = Cache(cluster.url, read_scripts, prefix=f"{request.node.name}:")
    yield cache
    await cache.close()
