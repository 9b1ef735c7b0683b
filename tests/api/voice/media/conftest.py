"""Processes that use the LiveKit-like server of the tests (`tests/voice/livekit_server.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from resolvers.voice.media import livekit_api
from resolvers.voice.media.livekit_parts import LiveKitParts
from resolvers.voice.media.reconciler import Reconciler
from store.base.clock import SystemClock
from tests.api.client import Api, wait_until
from tests.api.conftest import OpenApi
from tests.api.voice.calls import JOIN, Device, VoiceWorkspace, make_voice_workspace
from tests.clock import ManualClock
from tests.voice.livekit_server import LiveKitServer, serving_livekit


def livekit_of(api: Api) -> LiveKitParts:
    """Return the parts of a process that talk to LiveKit."""
    assert api.services.livekit is not None
    return api.services.livekit


@dataclass
class MediaWorkspace:
    """A workspace with voice channels whose media server is the LiveKit-like server of the tests.

    The process's own comparison is stopped. `look` compares at the time of a clock of the test, which begins with the
    present.
    """

    voice: VoiceWorkspace
    livekit: LiveKitServer
    clock: ManualClock
    reconciler: Reconciler

    @property
    def parts(self) -> LiveKitParts:
        return livekit_of(self.voice.api)

    def room(self, channel: str) -> str:
        name = self.voice.api.services.app.store.deployment.name
        assert name
        return f"confab-{name}-{channel}"

    @property
    def lounge(self) -> str:
        """The room of the first channel."""
        return self.room(self.voice.lounge)

    async def connect(self, user: str, channel: str | None = None) -> tuple[Device, str]:
        """Join a channel and its room. Return the device and the identity of its participant."""
        device = Device(self.voice.api, user)
        joined = await device.data(JOIN, id=channel or self.voice.lounge)
        return device, self.livekit.join(joined["token"]).identity

    async def look(self, after_ms: int = 0) -> None:
        """Let time pass, compare what is due then, and wait for the calls."""
        self.clock.ms += after_ms
        await self.reconciler.look()
        await self.parts.calls.settle()

    async def look_for(self, seconds: int) -> None:
        """Compare once a second for a time."""
        for _ in range(seconds):
            await self.look(1_000)

    async def wait_for_room(self, room: str, *identities: str) -> None:
        """Wait until these participants are in a room."""

        async def is_so() -> bool:
            return self.livekit.identities(room) == set(identities)

        await wait_until(is_so)


@pytest.fixture(scope="module")
async def livekit_server() -> AsyncIterator[LiveKitServer]:
    async with serving_livekit(SystemClock()) as server:
        yield server


@pytest.fixture(scope="module")
async def media_process(open_api: OpenApi, livekit_server: LiveKitServer) -> AsyncIterator[Api]:
    async with open_api("main", **livekit_server.settings()) as api:
        await livekit_of(api).reconciler.close()
        yield api


@pytest.fixture
async def media(
    media_process: Api, livekit_server: LiveKitServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MediaWorkspace]:
    monkeypatch.setattr(livekit_api, "_PAUSE_SECONDS", 0.001)
    clock = ManualClock(media_process.services.app.store.clock.now_ms())
    voice = await make_voice_workspace(media_process)
    yield MediaWorkspace(voice, livekit_server, clock, livekit_of(media_process).build_reconciler(clock))
    livekit_server.status, livekit_server.delay_seconds, livekit_server.is_held = 0, 0.0, False
    livekit_server.failing.clear()
    livekit_server.restart()
    livekit_server.calls.clear()
    await media_process.wait_until_idle()
    await media_process.stop_subscriptions()
