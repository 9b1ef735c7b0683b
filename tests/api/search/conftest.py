"""Search before and after messages are indexed, and a workspace for each test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import Api
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.api.search.calls import wait_until_indexed

Settle = Callable[[], Awaitable[None]]


@pytest.fixture(params=["waiting", "indexed"])
def settle(request: pytest.FixtureRequest, api: Api) -> Settle:
    """Return a function to call before a search: messages may wait for the index, or all are indexed."""

    async def wait() -> None:
        if request.param == "indexed":
            await wait_until_indexed(api)

    return wait


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)
