"""Stores of blobs. Each test finds them empty."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from pymongo import MongoClient

from store.files.blobs.base import BlobStore
from store.files.blobs.gridfs import GridFSBlobs
from store.files.blobs.s3 import S3Blobs
from store.files.blobs.s3_signing import S3Options
from store.mongo.client import Mongo
from tests.conftest import own_database
from tests.files.blobs.contents import all_names

Driver = Literal["pymongo", "motor"]
Janitor = MongoClient[dict[str, Any]]


@asynccontextmanager
async def open_mongo(url: str, janitor: Janitor, driver: Driver) -> AsyncIterator[Mongo]:
    """Provide a database."""
    with own_database(janitor) as name:
        mongo = Mongo(url, name, driver)
        yield mongo
        await mongo.close()


@pytest.fixture(scope="module", params=["pymongo", "motor"])
async def mongo(request: pytest.FixtureRequest, mongo_url: str, _mongo_janitor: Janitor) -> AsyncIterator[Mongo]:
    async with open_mongo(mongo_url, _mongo_janitor, request.param) as mongo:
        yield mongo


@pytest.fixture
async def gridfs(mongo: Mongo) -> AsyncIterator[GridFSBlobs]:
    gridfs = GridFSBlobs(mongo)
    yield gridfs
    await gridfs.delete(await all_names(gridfs))


@pytest.fixture
async def s3(s3_options: S3Options) -> AsyncIterator[S3Blobs]:
    s3 = S3Blobs(s3_options)
    yield s3
    await s3.delete(await all_names(s3))
    await s3.close()


@pytest.fixture(scope="module", params=["pymongo", "motor", "s3"])
async def any_store(
    request: pytest.FixtureRequest, mongo_url: str, _mongo_janitor: Janitor
) -> AsyncIterator[BlobStore]:
    if request.param == "s3":
        s3 = S3Blobs(request.getfixturevalue("s3_options"))
        yield s3
        await s3.close()
    else:
        async with open_mongo(mongo_url, _mongo_janitor, request.param) as mongo:
            yield GridFSBlobs(mongo)


@pytest.fixture
async def blobs(any_store: BlobStore) -> AsyncIterator[BlobStore]:
    """Each of the stores that run the conformance suite."""
    yield any_store
    await any_store.delete(await all_names(any_store))
