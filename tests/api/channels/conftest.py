"""A workspace for each test."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.sample_workspace import SampleWorkspace, create_sample_workspace


@pytest.fixture
async def workspace(api: Api) -> SampleWorkspace:
    return await create_sample_workspace(api)
