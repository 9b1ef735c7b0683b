"""Tokens for joining a room: for one room, one device, ten minutes, and what the state allows."""

from __future__ import annotations

import pytest

from resolvers.voice.media.rooms import Identities, RoomNames
from store.base.ids import ConversationId, UserId
from store.voice.voice_state import VoiceState
from tests.voice.conftest import CHANNEL, ROOM, Media, state_of
from tests.voice.livekit_server import ALL_SOURCES, API_KEY, Refused

PICTURES = ("CAMERA", "SCREEN_SHARE", "SCREEN_SHARE_AUDIO")


async def test_a_token_opens_one_room_for_one_device(media: Media) -> None:
    access = media.livekit.access(state_of())
    claims = media.server.claims_of(access.token)
    assert access.url == f"ws://127.0.0.1:{media.server.port}"
    assert (claims["iss"], claims["sub"]) == (API_KEY, media.identity())
    assert claims["nbf"] * 1000 == media.clock.ms and access.expires_at_ms == claims["exp"] * 1000
    assert claims["video"]["room"] == ROOM and claims["video"]["roomJoin"] is True
    assert claims["attributes"] == {"user": "ann"}
    assert not {"roomAdmin", "roomCreate", "roomList"} & claims["video"].keys()
    with pytest.raises(Refused):
        media.server._carry_out("ListParticipants", {"room": ROOM}, claims["video"])


async def test_a_token_is_valid_for_joining_for_ten_minutes(media: Media) -> None:
    access = media.livekit.access(state_of())
    assert access.expires_at_ms == media.clock.ms + 600_000
    media.clock.ms = access.expires_at_ms - 1
    media.server.join(access.token)
    media.clock.ms = access.expires_at_ms + 60_000
    with pytest.raises(Refused):
        media.server.join(access.token)


@pytest.mark.parametrize(
    ("state", "sources", "hears"),
    [
        (state_of(), ALL_SOURCES, True),
        (state_of(may_show=False), ("MICROPHONE",), True),
        (state_of(muted=True), PICTURES, True),
        (state_of(is_silenced=True), PICTURES, True),
        (state_of(muted=True, may_show=False), (), True),
        (state_of(is_silenced=True, may_show=False, deafened=True), (), False),
        (state_of(deafened=True), ALL_SOURCES, False),
        (state_of(self_mute=True, self_deaf=True), ALL_SOURCES, True),
    ],
)
async def test_a_token_allows_what_the_state_allows(
    media: Media, state: VoiceState, sources: tuple[str, ...], hears: bool
) -> None:
    participant = media.server.join(media.livekit.access(state).token)
    assert tuple(source for source in ALL_SOURCES if participant.can_publish(source)) == sources
    assert participant.permission["can_subscribe"] is hears
    assert not participant.permission["can_publish_data"] and not participant.permission["can_update_metadata"]


def test_each_device_of_each_user_has_its_own_identity() -> None:
    identities = Identities("key")
    pairs = [("ann", "a"), ("ann", "b"), ("anna", ""), ("ann:a", ""), ("ann", "na"), ("ж" * 128, "a"), ("ж" * 127, "a")]
    found = {identities.identity_of(UserId(user), device) for user, device in pairs}
    assert len(found) == len(pairs)
    assert all(len(identity.encode()) <= 256 for identity in found)
    assert identities.identity_of(UserId("ann"), "a") == Identities("key").identity_of(UserId("ann"), "a")


def test_an_identity_shows_the_user_and_hides_the_device() -> None:
    identity = Identities("key").identity_of(UserId("ann"), "secret-device")
    assert identity.startswith("ann:") and "secret-device" not in identity
    assert identity != Identities("other key").identity_of(UserId("ann"), "secret-device")


def test_rooms_of_deployments_that_share_a_server_are_distinct() -> None:
    names, others = RoomNames(lambda: "dep1"), RoomNames(lambda: "dep2")
    assert names.name_of(CHANNEL) == ROOM != others.name_of(CHANNEL)
    assert names.channel_of(ROOM) == CHANNEL and others.channel_of(ROOM) is None
    assert names.name_of(ConversationId("c_7.9")) != ROOM


@pytest.mark.parametrize("room", ["", "meeting", "confab-dep1-", "confab-dep1-g_1", "confab-dep1-c_7", CHANNEL])
def test_rooms_of_others_are_no_channels(room: str) -> None:
    assert RoomNames(lambda: "dep1").channel_of(room) is None


def test_no_room_belongs_to_a_deployment_whose_name_is_not_known_yet() -> None:
    assert RoomNames(str).channel_of("confab--c_7.8") is None
