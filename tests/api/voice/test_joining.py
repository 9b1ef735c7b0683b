"""Joining, changing and leaving voice channels."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.channels.calls import ARCHIVE
from tests.api.client import Api, Refusal
from tests.api.voice.calls import JOIN, LEAVE, UPDATE, Device, VoiceWorkspace, make_voice_workspace, next_voice


async def test_a_user_in_a_voice_channel_is_shown_with_their_flags(voice: VoiceWorkspace, other_api: Api) -> None:
    device = Device(voice.api, voice.member)
    joined = await device.data(JOIN, id=voice.lounge, mute=True)
    assert (joined["url"], joined["token"], joined["expiresAt"]) == (None, None, None)
    state = joined["state"]
    assert state | {"joinedAt": None} == {
        "user": {"id": voice.member},
        "channelId": voice.lounge,
        "selfMute": True,
        "selfDeaf": False,
        "mute": False,
        "deaf": False,
        "video": False,
        "screen": False,
        "joinedAt": None,
    }
    changed = await device.update(mute=False, deaf=True, video=True)
    assert changed == state | {"selfMute": False, "selfDeaf": True, "video": True}
    assert await device.update() == changed
    assert await voice.states(voice.lounge, api=other_api) == [changed]
    await device.leave()
    assert await voice.states(voice.lounge, api=other_api) == []


async def test_each_change_is_an_event_on_all_servers(voice: VoiceWorkspace, other_api: Api) -> None:
    here, _ = await voice.listen(voice.owner)
    there, _ = await voice.listen(voice.owner, other_api)
    device = Device(voice.api, voice.member)
    expected = [(False, await device.join(voice.lounge)), (False, await device.update(screen=True))]
    moved = await device.join(voice.stage)
    assert (moved["channelId"], moved["screen"]) == (voice.stage, False)
    await device.leave()
    expected += [(False, moved), (True, moved)]
    for subscriber in (here, there):
        events = [await next_voice(subscriber) for _ in expected]
        assert [(event["left"], event["state"]) for event in events] == expected
        assert {event["workspaceId"] for event in events} == {voice.id}
        revs = [event["rev"] for event in events]
        assert revs == sorted(set(revs))
        await subscriber.expect_no_event()


async def test_joining_again_keeps_the_state_and_causes_no_event(voice: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member)
    first = await device.join(voice.lounge)
    await device.update(video=True)
    listener, _ = await voice.listen(voice.owner)
    assert await device.join(voice.lounge) == first | {"video": True}
    await listener.expect_no_event()


async def test_a_user_is_in_one_voice_channel_of_a_workspace(voice: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member)
    await device.join(voice.lounge)
    await device.join(voice.stage)
    assert (await voice.users(voice.lounge), await voice.users(voice.stage)) == ([], [voice.member])


async def test_of_two_devices_the_later_one_is_in_voice(voice: VoiceWorkspace, other_api: Api) -> None:
    phone, laptop = Device(voice.api, voice.member), Device(other_api, voice.member)
    first = await phone.join(voice.lounge)
    second = await laptop.join(voice.lounge)
    assert second["joinedAt"] > first["joinedAt"]
    assert await voice.states(voice.lounge) == [second]
    for query in (UPDATE, LEAVE):
        assert await phone.refused(query) == Refusal("NOT_FOUND")
    assert await voice.states(voice.lounge) == [second]
    await laptop.leave()


async def test_two_devices_that_join_at_once_leave_one_state(voice: VoiceWorkspace, other_api: Api) -> None:
    devices = [Device(api, voice.member) for api in (voice.api, other_api) for _ in range(3)]
    listener, _ = await voice.listen(voice.owner)
    channels = [voice.lounge, voice.stage] * 3
    joined = await asyncio.gather(*(device.join(channel) for device, channel in zip(devices, channels, strict=True)))
    lounge, stage = await voice.everything()
    shown = lounge + stage
    assert len(shown) == 1 and shown[0] in joined
    events = [await next_voice(listener) for _ in devices]
    assert events[-1]["state"] == shown[0]
    assert len({event["state"]["joinedAt"] for event in events}) == len(devices)
    left = await asyncio.gather(*(device.run(LEAVE) for device in devices))
    assert sum("errors" not in answer for answer in left) == 1


async def test_a_device_is_in_one_voice_channel_over_all_workspaces(voice: VoiceWorkspace) -> None:
    other = await make_voice_workspace(voice.api)
    await other.add(voice.member)
    device, tablet = Device(voice.api, voice.member), Device(voice.api, voice.member)
    await device.join(voice.lounge)
    await device.join(other.lounge)
    assert (await voice.users(voice.lounge), await other.users(other.lounge)) == ([], [voice.member])
    await tablet.join(voice.stage)
    assert (await voice.users(voice.stage), await other.users(other.lounge)) == ([voice.member], [voice.member])
    await device.leave()
    assert (await voice.users(voice.stage), await other.users(other.lounge)) == ([voice.member], [])


async def test_a_device_without_an_id_may_join(voice: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member, None)
    await device.join(voice.lounge)
    assert await voice.users(voice.lounge) == [voice.member]
    await device.leave()
    assert await voice.users(voice.lounge) == []


@pytest.mark.parametrize("query", [JOIN, UPDATE, LEAVE])
async def test_voice_needs_a_websocket(voice: VoiceWorkspace, query: str) -> None:
    variables = {"id": voice.lounge} if query == JOIN else {}
    assert await voice.api.expect_refusal(voice.member, query, **variables) == Refusal("INVALID_INPUT")
    assert await voice.everything() == [[], []]


@pytest.mark.parametrize("query", [UPDATE, LEAVE])
async def test_a_device_that_is_not_in_voice_has_nothing_to_change(voice: VoiceWorkspace, query: str) -> None:
    await Device(voice.api, voice.owner).join(voice.lounge)
    before = await voice.everything()
    assert await Device(voice.api, voice.owner).refused(query) == Refusal("NOT_FOUND")
    assert await voice.everything() == before


async def test_only_existing_voice_channels_that_one_sees_can_be_joined(voice: VoiceWorkspace) -> None:
    text = (await voice.create("text"))["id"]
    hidden = (await voice.create("hidden", kind="VOICE"))["id"]
    await voice.overwrite(hidden, voice.member, deny=("VIEW_CHANNEL",))
    device = Device(voice.api, voice.member)
    await device.join(voice.stage)
    before = await voice.everything()
    expected = [
        (text, Refusal("INVALID_INPUT", "channelId")),
        (hidden, Refusal("NOT_FOUND", "channelId")),
        (f"{voice.lounge}1", Refusal("NOT_FOUND", "channelId")),
        ("c_1.1", Refusal("NOT_FOUND", "channelId")),
        ("g_1", Refusal("NOT_FOUND", "channelId")),
        ("", Refusal("NOT_FOUND", "channelId")),
    ]
    for channel, refusal in expected:
        assert await device.refused(JOIN, id=channel) == refusal, channel
    outsider = Device(voice.api, voice.outsider)
    assert await outsider.refused(JOIN, id=voice.lounge) == Refusal("NOT_FOUND", "channelId")
    assert await voice.everything() == before
    await device.leave()


async def test_joining_needs_connect_and_a_channel_that_is_not_archived(voice: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member)
    await voice.overwrite(voice.lounge, voice.member, deny=("CONNECT",))
    assert await device.refused(JOIN, id=voice.lounge) == Refusal("FORBIDDEN", "channelId")
    await voice.api.data(voice.owner, ARCHIVE, id=voice.stage)
    assert await device.refused(JOIN, id=voice.stage) == Refusal("ARCHIVED", "channelId")
    assert await Device(voice.api, voice.owner).refused(JOIN, id=voice.stage) == Refusal("ARCHIVED", "channelId")
    assert await voice.everything() == [[], []]


async def test_a_user_without_the_right_to_speak_is_mute_until_they_have_it(voice: VoiceWorkspace) -> None:
    await voice.overwrite(voice.lounge, voice.member, deny=("SPEAK",))
    device = Device(voice.api, voice.member)
    assert (await device.join(voice.lounge))["mute"] is True
    listener, _ = await voice.listen(voice.owner)
    await voice.overwrite(voice.lounge, voice.member)
    assert (await next_voice(listener))["state"]["mute"] is False
    assert (await voice.states(voice.lounge))[0]["mute"] is False


@pytest.mark.parametrize("picture", ["video", "screen"])
async def test_pictures_need_the_permission_video(voice: VoiceWorkspace, picture: str) -> None:
    await voice.overwrite(voice.lounge, voice.member, deny=("VIDEO",))
    device = Device(voice.api, voice.member)
    state = await device.join(voice.lounge)
    assert await device.refused(UPDATE, **{picture: True, "mute": True}) == Refusal("FORBIDDEN", picture)
    assert await voice.states(voice.lounge) == [state]
    await voice.overwrite(voice.lounge, voice.member)
    assert (await device.update(**{picture: True}))[picture] is True
    await voice.overwrite(voice.lounge, voice.member, deny=("VIDEO",))
    assert await voice.states(voice.lounge) == [state]


async def test_a_text_channel_has_no_voice_states(voice: VoiceWorkspace) -> None:
    assert await voice.states((await voice.create("text"))["id"]) == []


async def test_an_invisible_user_who_joins_is_shown_in_the_channel(voice: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member)
    listener, _ = await voice.listen(voice.owner)
    await device.data("mutation { setPresence(status: INVISIBLE) { setting } }")
    joined = await device.join(voice.lounge)
    assert await voice.states(voice.lounge) == [joined]
    assert (await next_voice(listener))["state"] == joined
