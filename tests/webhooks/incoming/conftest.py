"""Fixtures of the API tests, a workspace for each test, and the endpoint of webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.client import Api
from tests.api.conftest import api, deployments, open_api, other_api, other_process, process
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.webhooks.incoming.hooks import Hooks

__all__ = ["api", "deployments", "open_api", "other_api", "other_process", "process"]


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
