"""Moderating voice channels, and the end of rights in them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.channels.calls import ARCHIVE, DELETE
from tests.api.client import Api, Refusal
from tests.api.moderation import calls as moderation_calls
from tests.api.voice.calls import JOIN, MODERATE, UPDATE, Device, VoiceWorkspace, make_voice_workspace, next_voice
from tests.api.workspaces import calls as workspace_calls

NEEDS = [
    ({"mute": True}, "MUTE_OTHERS", "mute"),
    ({"mute": False}, "MUTE_OTHERS", "mute"),
    ({"deaf": True}, "DEAFEN_OTHERS", "deaf"),
    ({"disconnect": True}, "MOVE_OTHERS", "disconnect"),
    ({"to": "@stage"}, "MOVE_OTHERS", "moveToChannelId"),
]
"""Changes, the permission that each needs, and the field of its refusal."""

ALL = ("MUTE_OTHERS", "DEAFEN_OTHERS", "MOVE_OTHERS")


async def moderate(voice: VoiceWorkspace, caller: str, user: str, channel: str = "", **change: Any) -> Any:
    """Change the state of a user in the lounge."""
    if change.get("to") == "@stage":
        change["to"] = voice.stage
    answer = await voice.api.data(caller, MODERATE, id=channel or voice.lounge, user=user, **change)
    return answer["moderateVoice"]


async def refused(voice: VoiceWorkspace, caller: str, user: str, channel: str = "", **change: Any) -> Refusal:
    if change.get("to") == "@stage":
        change["to"] = voice.stage
    return await voice.api.expect_refusal(caller, MODERATE, id=channel or voice.lounge, user=user, **change)


async def test_moderators_mute_deafen_move_and_disconnect_others(voice: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member)
    state = await device.join(voice.lounge)
    listener, _ = await voice.listen(voice.owner)
    muted = await moderate(voice, voice.owner, voice.member, mute=True, deaf=True)
    assert muted == state | {"mute": True, "deaf": True}
    moved = await moderate(voice, voice.owner, voice.member, to="@stage", mute=False)
    assert moved | {"joinedAt": None} == state | {
        "deaf": True, "channelId": voice.stage, "joinedAt": None,
    }  # fmt: skip
    assert moved["joinedAt"] > state["joinedAt"]
    assert await moderate(voice, voice.owner, voice.member, voice.stage, disconnect=True) is None
    events = [await next_voice(listener) for _ in range(3)]
    assert [(event["left"], event["state"]) for event in events] == [(False, muted), (False, moved), (True, moved)]
    assert await device.refused(UPDATE, mute=True) == Refusal("NOT_FOUND")


async def test_a_mute_by_a_moderator_lasts_when_the_user_joins_again(voice: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member)
    await device.join(voice.lounge)
    await moderate(voice, voice.owner, voice.member, mute=True)
    await device.leave()
    assert (await device.join(voice.stage))["mute"] is True
    await moderate(voice, voice.owner, voice.member, voice.stage, mute=False)
    await device.leave()
    assert (await device.join(voice.stage))["mute"] is False


async def test_a_moved_device_updates_and_leaves_its_new_state(voice: VoiceWorkspace, other_api: Api) -> None:
    device = Device(other_api, voice.member)
    await device.join(voice.lounge)
    await moderate(voice, voice.owner, voice.member, to="@stage")
    assert (await device.update(video=True))["channelId"] == voice.stage
    await device.leave()
    assert await voice.everything() == [[], []]


@pytest.mark.parametrize(("change", "permission", "field"), NEEDS)
async def test_each_change_needs_its_permission(
    voice: VoiceWorkspace, change: dict[str, Any], permission: str, field: str
) -> None:
    device = Device(voice.api, voice.owner)
    await device.join(voice.lounge)
    before = await voice.everything()
    listener, _ = await voice.listen(voice.owner)
    await voice.give(voice.member, *(each for each in ALL if each != permission))
    assert await refused(voice, voice.member, voice.owner, **change) == Refusal("FORBIDDEN", field)
    assert await voice.everything() == before
    await voice.take_roles(voice.member)
    await voice.give(voice.member, permission)
    assert await refused(voice, voice.outsider, voice.owner, **change) == Refusal("NOT_FOUND", "channelId")
    await voice.overwrite(voice.lounge, voice.member, deny=("VIEW_CHANNEL",))
    assert await refused(voice, voice.member, voice.owner, **change) == Refusal("NOT_FOUND", "channelId")
    assert await voice.everything() == before
    assert all(event["__typename"] != "VoiceStateChanged" for event in listener.pop_events())
    await voice.overwrite(voice.lounge, voice.member)
    await moderate(voice, voice.member, voice.owner, **change)


async def test_moving_needs_rights_of_both_in_the_other_channel(voice: VoiceWorkspace) -> None:
    await voice.give(voice.member, "MOVE_OTHERS")
    (other,) = await voice.api.create_users("other")
    await voice.add(other)
    await Device(voice.api, other).join(voice.lounge)
    before = await voice.everything()
    field = "moveToChannelId"
    for user, deny, refusal in (
        (voice.member, "MOVE_OTHERS", Refusal("FORBIDDEN", field)),
        (voice.member, "VIEW_CHANNEL", Refusal("NOT_FOUND", field)),
        (other, "CONNECT", Refusal("FORBIDDEN", field)),
        (other, "VIEW_CHANNEL", Refusal("NOT_FOUND", field)),
    ):
        await voice.overwrite(voice.stage, user, deny=(deny,))
        assert await refused(voice, voice.member, other, to="@stage") == refusal
        await voice.overwrite(voice.stage, user)
        assert await voice.everything() == before


async def test_invalid_moderation_changes_nothing(voice: VoiceWorkspace) -> None:
    await Device(voice.api, voice.member).join(voice.lounge)
    elsewhere = await make_voice_workspace(voice.api)
    text = (await voice.create("text"))["id"]
    old = (await voice.create("old", kind="VOICE"))["id"]
    await voice.api.data(voice.owner, ARCHIVE, id=old)
    before, field = await voice.everything(), "moveToChannelId"
    for change, refusal in (
        ({}, Refusal("INVALID_INPUT")),
        ({"disconnect": False}, Refusal("INVALID_INPUT")),
        ({"disconnect": True, "to": voice.stage}, Refusal("INVALID_INPUT", "disconnect")),
        ({"to": text}, Refusal("INVALID_INPUT", field)),
        ({"to": elsewhere.lounge}, Refusal("INVALID_INPUT", field)),
        ({"to": "c_1.1"}, Refusal("INVALID_INPUT", field)),
        ({"to": "nothing"}, Refusal("NOT_FOUND", field)),
        ({"to": old}, Refusal("ARCHIVED", field)),
    ):
        assert await refused(voice, voice.owner, voice.member, **change) == refusal, change
    assert await refused(voice, voice.owner, voice.owner, mute=True) == Refusal("NOT_FOUND", "userId")
    assert await refused(voice, voice.owner, voice.member, voice.stage, mute=True) == Refusal("NOT_FOUND", "userId")
    assert await refused(voice, voice.owner, "", mute=True) == Refusal("NOT_FOUND", "userId")
    assert await refused(voice, voice.owner, voice.member, text, mute=True) == Refusal("INVALID_INPUT", "channelId")
    assert await voice.everything() == before


async def test_an_anonymous_caller_moderates_nobody(voice: VoiceWorkspace) -> None:
    refusal = await voice.api.expect_refusal(None, MODERATE, id=voice.lounge, user=voice.member, mute=True)
    assert refusal == Refusal("UNAUTHENTICATED")


# The end of rights.


async def deny_connect(voice: VoiceWorkspace) -> None:
    await voice.overwrite(voice.lounge, voice.member, deny=("CONNECT",))


async def deny_view(voice: VoiceWorkspace) -> None:
    await voice.overwrite(voice.lounge, voice.member, deny=("VIEW_CHANNEL",))


async def archive(voice: VoiceWorkspace) -> None:
    await voice.archive(voice.lounge)


async def leave_workspace(voice: VoiceWorkspace) -> None:
    await voice.api.data(voice.member, workspace_calls.LEAVE, id=voice.id)


async def kick(voice: VoiceWorkspace) -> None:
    await voice.api.data(voice.owner, moderation_calls.KICK, id=voice.id, user=voice.member)


async def ban(voice: VoiceWorkspace) -> None:
    await moderation_calls.ban(voice.api, voice.owner, voice.id, voice.member)


async def time_out(voice: VoiceWorkspace) -> None:
    await moderation_calls.time_out(voice.api, voice.owner, voice.id, voice.member, moderation_calls.later(hours=1))


@pytest.mark.parametrize("end", [deny_connect, deny_view, archive, leave_workspace, kick, ban, time_out])
async def test_a_state_ends_with_the_right_to_connect(voice: VoiceWorkspace, other_api: Api, end: Any) -> None:
    device = Device(other_api, voice.member)
    await device.join(voice.lounge)
    listener, _ = await voice.listen(voice.owner)
    await end(voice)
    left = await next_voice(listener)
    assert (left["left"], left["state"]["user"]["id"]) == (True, voice.member)
    reading = await voice.api.services.app.store.voice.read(voice.id)
    assert not reading.states
    assert await device.refused(UPDATE, mute=True) == Refusal("NOT_FOUND")


@pytest.mark.parametrize("what", ["channel", "workspace"])
async def test_states_end_with_their_channel_or_workspace(voice: VoiceWorkspace, what: str) -> None:
    await Device(voice.api, voice.member).join(voice.lounge)
    if what == "channel":
        await voice.api.data(voice.owner, DELETE, id=voice.lounge)
    else:
        await voice.api.data(voice.owner, workspace_calls.DELETE, id=voice.id)
    assert not (await voice.api.services.app.store.voice.read(voice.id)).states


async def test_a_state_ends_with_its_rights_although_their_server_died(voice: VoiceWorkspace) -> None:
    app = voice.api.services.app
    await Device(voice.api, voice.member).join(voice.lounge)
    judge, app.voice.judge = app.voice.judge, _do_nothing  # type: ignore[method-assign]
    try:
        await deny_connect(voice)
    finally:
        app.voice.judge = judge  # type: ignore[method-assign]
    await voice.wait_for(voice.lounge)


async def _do_nothing(*_: Any) -> None:
    pass


async def test_a_join_under_rights_that_have_ended_is_refused(voice: VoiceWorkspace, other_api: Api) -> None:
    device = Device(other_api, voice.member)
    await device.join(voice.lounge)
    await device.leave()
    # The other server knows the policy before this change only, until it gets the event.
    await deny_connect(voice)
    assert await device.refused(JOIN, id=voice.lounge) == Refusal("FORBIDDEN", "channelId")
    assert await voice.everything() == [[], []]
