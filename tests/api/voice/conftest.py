"""A workspace with voice channels for each test."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.voice.calls import VoiceWorkspace, make_voice_workspace


@pytest.fixture
async def voice(api: Api) -> VoiceWorkspace:
    return await make_voice_workspace(api)
