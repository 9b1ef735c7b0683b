"""Workspaces for each test."""

from __future__ import annotations

import pytest

from tests.api.channels.calls import Made, make_workspace
from tests.api.client import Api
from tests.api.sample_channels import SampleChannels, create_sample_channels


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)


@pytest.fixture
async def made(api: Api) -> Made:
    return await make_workspace(api)
