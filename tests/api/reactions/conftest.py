"""A workspace with channels for each test."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.sample_channels import SampleChannels, create_sample_channels


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)
