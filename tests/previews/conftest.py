"""Previews of a site on loopback, with real databases and the real inspector."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from resolvers.files.inspection.inspector import Inspector
from resolvers.previews.pictures import Pictures
from resolvers.previews.preview_fetcher import PreviewFetcher
from store.base.clock import DeploymentClock
from store.build import build_store
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.store import Store
from tests.clock import ManualClock
from tests.previews.site import Site, fetcher_for, open_site

MAX_PICTURE_BYTES = 2_000_000


@dataclass
class Server:
    """One server's previews."""

    previews: PreviewFetcher
    pictures: Pictures
    store: Store


@pytest.fixture(scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    shared = Inspector(tmp_path_factory.mktemp("pictures"))
    yield shared
    await shared.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest.fixture
async def new_server(
    mongo_url: str,
    emptied_database: str,
    redis_url: str,
    redis_prefix: str,
    clock: ManualClock,
    site: Site,
    inspector: Inspector,
) -> AsyncIterator[Callable[[], Server]]:
    mongo = Mongo(mongo_url, emptied_database)
    cache = Cache(redis_url, read_scripts, prefix=redis_prefix)
    store = build_store(mongo, cache, DeploymentClock(clock), data_center=0)

    def create() -> Server:
        fetcher = fetcher_for(site)
        pictures = Pictures(store, inspector, fetcher, MAX_PICTURE_BYTES)
        return Server(PreviewFetcher(store.preview_cache, fetcher, pictures), pictures, store)

    yield create
    await cache.close()
    await mongo.close()


@pytest.fixture
def server(new_server: Callable[[], Server]) -> Server:
    return new_server()
