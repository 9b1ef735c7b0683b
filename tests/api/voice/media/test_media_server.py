"""Voice channels with a media server: tokens, and what follows from changes of voice states."""

from __future__ import annotations

import datetime

import pytest

from tests.api.client import Api
from tests.api.voice.calls import JOIN, MODERATE, UPDATE, Device
from tests.api.voice.media.conftest import MediaWorkspace

PICTURES = {"CAMERA", "SCREEN_SHARE", "SCREEN_SHARE_AUDIO"}


def sources(media: MediaWorkspace, identity: str) -> set[str]:
    participant = media.livekit.rooms[media.lounge].participants[identity]
    return {source for source in PICTURES | {"MICROPHONE"} if participant.can_publish(source)}


async def test_joining_returns_the_address_and_a_token_for_ten_minutes(media: MediaWorkspace) -> None:
    device = Device(media.voice.api, media.voice.member)
    joined = await device.data(JOIN, id=media.voice.lounge)
    claims = media.livekit.claims_of(joined["token"])
    assert joined["url"] == media.livekit.settings()["livekit_url"]
    assert datetime.datetime.fromisoformat(joined["expiresAt"]).timestamp() == claims["exp"]
    assert claims["exp"] - claims["nbf"] == 600
    assert claims["video"]["room"] == media.lounge and claims["attributes"] == {"user": media.voice.member}


async def test_tokens_follow_the_rights_in_the_channel(media: MediaWorkspace) -> None:
    _, identity = await media.connect(media.voice.member)
    assert sources(media, identity) == PICTURES | {"MICROPHONE"}
    await media.voice.overwrite(media.voice.lounge, media.voice.member, deny=("SPEAK",))
    await media.parts.calls.settle()
    assert sources(media, identity) == PICTURES
    await media.voice.overwrite(media.voice.lounge, media.voice.member, deny=("SPEAK", "VIDEO"))
    await media.parts.calls.settle()
    assert sources(media, identity) == set()
    _, later = await media.connect(media.voice.member)
    assert sources(media, later) == set()


async def test_leaving_removes_the_participant(media: MediaWorkspace) -> None:
    device, _ = await media.connect(media.voice.member)
    _, other = await media.connect(media.voice.owner)
    await device.leave()
    await media.wait_for_room(media.lounge, other)


async def test_the_earlier_of_two_devices_is_removed(media: MediaWorkspace) -> None:
    _, phone = await media.connect(media.voice.member)
    _, laptop = await media.connect(media.voice.member)
    assert phone != laptop
    await media.wait_for_room(media.lounge, laptop)


async def test_joining_another_channel_leaves_the_first_room(media: MediaWorkspace) -> None:
    device, identity = await media.connect(media.voice.member)
    joined = await device.data(JOIN, id=media.voice.stage)
    media.livekit.join(joined["token"])
    await media.wait_for_room(media.lounge)
    await media.wait_for_room(media.room(media.voice.stage), identity)


async def test_moderation_mutes_deafens_and_undoes_both(media: MediaWorkspace) -> None:
    _, identity = await media.connect(media.voice.member)
    participant = media.livekit.rooms[media.lounge].participants[identity]
    given = {"id": media.voice.lounge, "user": media.voice.member}
    for mute, deaf in ((True, False), (True, True), (False, True), (False, False)):
        await media.voice.api.data(media.voice.owner, MODERATE, **given, mute=mute, deaf=deaf)
        await media.parts.calls.settle()
        assert ("MICROPHONE" in sources(media, identity)) is not mute
        assert participant.permission["can_subscribe"] is not deaf


async def test_a_refused_moderation_changes_nothing_in_the_room(media: MediaWorkspace) -> None:
    _, identity = await media.connect(media.voice.owner)
    media.livekit.calls.clear()
    given = {"id": media.voice.lounge, "user": media.voice.owner}
    for change in ({"mute": True}, {"deaf": True}, {"disconnect": True}, {"to": media.voice.stage}):
        await media.voice.api.expect_refusal(media.voice.member, MODERATE, **given, **change)
    await media.parts.calls.settle()
    assert media.livekit.calls == [] and sources(media, identity) == PICTURES | {"MICROPHONE"}


@pytest.mark.parametrize("is_moved", [False, True])
async def test_users_who_are_disconnected_or_moved_are_removed_from_the_room(
    media: MediaWorkspace, is_moved: bool
) -> None:
    device, _ = await media.connect(media.voice.member)
    change = {"to": media.voice.stage} if is_moved else {"disconnect": True}
    given = {"id": media.voice.lounge, "user": media.voice.member}
    await media.voice.api.data(media.voice.owner, MODERATE, **given, **change)
    await media.wait_for_room(media.lounge)
    assert await media.voice.users(media.voice.stage) == ([media.voice.member] if is_moved else [])
    if is_moved:
        joined = await device.data(JOIN, id=media.voice.stage)
        media.livekit.join(joined["token"])
        await media.parts.calls.settle()
        assert len(media.livekit.identities(media.room(media.voice.stage))) == 1


async def test_a_user_who_may_not_connect_any_more_is_removed(media: MediaWorkspace) -> None:
    await media.connect(media.voice.member)
    await media.voice.overwrite(media.voice.lounge, media.voice.member, deny=("CONNECT",))
    await media.wait_for_room(media.lounge)


async def test_own_flags_make_no_calls(media: MediaWorkspace) -> None:
    device, _ = await media.connect(media.voice.member)
    media.livekit.calls.clear()
    await device.data(UPDATE, mute=True, deaf=True, video=True)
    await media.parts.calls.settle()
    assert media.livekit.calls == []


@pytest.mark.parametrize("status", [500, 401])
async def test_a_failing_media_server_is_no_error_of_the_caller(media: MediaWorkspace, status: int) -> None:
    device, identity = await media.connect(media.voice.member)
    media.livekit.status = status
    await device.data(UPDATE, mute=True)
    await device.leave()
    again, _ = await media.connect(media.voice.member)
    await again.leave()
    await media.parts.calls.settle()
    assert await media.voice.users(media.voice.lounge) == []
    media.livekit.status = 0
    assert identity in media.livekit.identities(media.lounge)
    await media.look_for(70)
    assert not media.livekit.identities(media.lounge)


async def test_callers_do_not_wait_for_a_slow_media_server(media: MediaWorkspace) -> None:
    device, _ = await media.connect(media.voice.member)
    media.livekit.is_held = True
    await device.leave()
    assert await media.voice.users(media.voice.lounge) == []
    assert len(media.livekit.identities(media.lounge)) == 1
    media.livekit.is_held = False
    await media.parts.calls.settle()
    await media.wait_for_room(media.lounge)


async def test_without_a_media_server_there_is_no_token(media: MediaWorkspace, other_api: Api) -> None:
    joined = await Device(other_api, media.voice.member).data(JOIN, id=media.voice.lounge)
    assert (joined["url"], joined["token"], joined["expiresAt"]) == (None, None, None)
