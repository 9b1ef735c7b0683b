"""Fixtures: a LiveKit-like server of the tests' own, and the parts of Confab that talk to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from resolvers.voice.media import livekit_api
from resolvers.voice.media.livekit import LiveKit
from resolvers.voice.media.livekit_api import LiveKitApi
from resolvers.voice.media.livekit_tokens import LiveKitTokens
from resolvers.voice.media.participant_calls import ParticipantCalls
from resolvers.voice.media.rooms import Identities, MediaPermission, RoomNames
from store.base.ids import ConversationId, UserId
from store.clocks.shared_clocks import Appended
from store.voice.voice_state import VoiceState
from store.voice.voice_store import VoiceChange
from tests.clock import ManualClock
from tests.voice.livekit_server import API_KEY, SECRET, LiveKitServer, serving_livekit

CHANNEL = ConversationId("c_7.8")
ROOM = "confab-dep1-c_7.8"
NO_EVENT = Appended("", 0, 0, "", ())


def state_of(user: str = "ann", device: str = "phone", **more: object) -> VoiceState:
    given = {"channel": CHANNEL, "server": "s1", "joined_at_ms": 0, "may_show": True, **more}
    return VoiceState(user=UserId(user), device=device, **given)  # type: ignore[arg-type]


@dataclass
class Media:
    """The parts of Confab that talk to a LiveKit server."""

    server: LiveKitServer
    clock: ManualClock
    api: LiveKitApi
    tokens: LiveKitTokens
    names: RoomNames
    identities: Identities
    calls: ParticipantCalls
    livekit: LiveKit
    failed_rooms: list[str] = field(default_factory=list)

    def identity(self, user: str = "ann", device: str = "phone") -> str:
        return self.identities.identity_of(UserId(user), device)

    def end(self, state: VoiceState) -> None:
        """Note that a state has ended."""
        self.livekit.follow(VoiceChange("", None, state, NO_EVENT))

    def change(self, state: VoiceState) -> None:
        """Note that a state has changed to this one, from one that allows nothing or everything."""
        allows_nothing = MediaPermission(can_speak=False, can_show=False, can_hear=False)
        is_other = MediaPermission.of_state(state) != allows_nothing
        before = replace(state, muted=is_other, may_show=not is_other, deafened=is_other)
        self.livekit.follow(VoiceChange("", state, before, NO_EVENT))

    def join(self, state: VoiceState) -> str:
        """Join as the client of a state does. Return the identity."""
        return self.server.join(self.livekit.access(state).token).identity


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def livekit_server(clock: ManualClock) -> AsyncIterator[LiveKitServer]:
    async with serving_livekit(clock) as server:
        yield server


@pytest.fixture
async def media(
    livekit_server: LiveKitServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Media]:
    monkeypatch.setattr(livekit_api, "_PAUSE_SECONDS", 0.001)
    tokens = LiveKitTokens(API_KEY, SECRET, clock)
    api = LiveKitApi(livekit_server.url, tokens)
    names, identities = RoomNames(lambda: "dep1"), Identities(SECRET)
    failed: list[str] = []
    calls = ParticipantCalls(api, failed.append)
    url = livekit_server.settings()["livekit_url"]
    livekit = LiveKit(url, tokens, names, identities, calls, clock)
    yield Media(livekit_server, clock, api, tokens, names, identities, calls, livekit, failed)
    await calls.close()
    await api.close()
