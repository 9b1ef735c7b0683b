"""A Redis Cluster of the test module: its slots move, and its nodes die."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from store.redis.cache import Cache
from store.scripts import read_scripts
from tests.cluster.nodes import OwnCluster, redis_cluster

REDIS_TIMEOUT_SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    """Three primaries. The first one has a replica, which takes over only when a test makes it."""
    with redis_cluster(primaries=3, replicas=1) as cluster:
        yield cluster


@pytest.fixture
def long_redis_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls wait for a node for a minute, because the machine may be busy. In operation they wait for 5 s."""
    for module in ("store.redis.node", "store.redis.cluster.nodes"):
        monkeypatch.setattr(f"{module}.TIMEOUT_SECONDS", REDIS_TIMEOUT_SECONDS)


@pytest.fixture
async def cache(cluster: OwnCluster, request: pytest.FixtureRequest) -> AsyncIterator[Cache]:
    cache = Cache(cluster.url, read_scripts, prefix=f"{request.node.name}:")
    yield cache
    await cache.close()
