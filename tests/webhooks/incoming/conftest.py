"""Fixtures of the API tests, a workspace for each test, and the endpoint of webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from server.settings import Settings, load_settings
from tests.api.client import Api
from tests.api.conftest import (
    _losing_process,
    api,
    deployments,
    losing_api,
    open_api,
    other_api,
    other_process,
    process,
)
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.server.tokens import SECRET
from tests.webhooks.incoming.hooks import ORIGIN, Hooks

__all__ = [
    "_losing_process",
    "api",
    "deployments",
    "losing_api",
    "open_api",
    "other_api",
    "other_process",
    "process",
]


@pytest.fixture
def settings(mongo_url: str, redis_url: str, emptied_database: str, redis_prefix: str) -> Settings:
    """Settings of a whole application, with an emptied database."""
    return load_settings(
        mongo_url=mongo_url,
        redis_url=redis_url,
        mongo_database=emptied_database,
        redis_prefix=redis_prefix,
        jwt_secret=SECRET,
        cors_origins=ORIGIN,
    )


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)


@pytest.fixture
async def hooks(api: Api) -> AsyncIterator[Hooks]:
    hooks = Hooks(api)
    yield hooks
    await hooks.http.aclose()


@pytest.fixture
async def other_hooks(other_api: Api) -> AsyncIterator[Hooks]:
    hooks = Hooks(other_api)
    yield hooks
    await hooks.http.aclose()
