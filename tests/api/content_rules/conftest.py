"""Fixtures of tests of content rules."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.content_rules.calls import Space, create_space


@pytest.fixture
async def space(api: Api) -> Space:
    return await create_space(api)
