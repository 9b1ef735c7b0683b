"""Voice states that have changed while a client was away, and who sees them."""

from __future__ import annotations

from typing import Any

import pytest

from store.redis.cache import Call
from tests.api.client import Api
from tests.api.session_calls import Json
from tests.api.voice.calls import MODERATE, Device, VoiceWorkspace, next_voice


def shown(events: list[Json]) -> list[tuple[bool, Any]]:
    assert events[-1]["reset"] is False
    return [(event["left"], event["state"]) for event in events if event["__typename"] == "VoiceStateChanged"]


@pytest.fixture
async def others(voice: VoiceWorkspace) -> list[str]:
    users = await voice.api.create_users("ann", "ben", "cem")
    await voice.add(*users)
    return users


async def test_each_user_whose_voice_changed_is_sent_once(
    voice: VoiceWorkspace, other_api: Api, others: list[str]
) -> None:
    ann, ben, cem = (Device(voice.api, user) for user in others)
    member = Device(voice.api, voice.member)
    stayed, left = await member.join(voice.lounge), await ben.join(voice.lounge)
    _, (caught_up,) = await voice.listen(voice.owner)
    for channel in (voice.lounge, voice.stage, voice.lounge):
        joined = await ann.join(channel)
    await ben.leave()
    await cem.join(voice.stage)
    await cem.leave()
    last = await cem.join(voice.lounge)
    moved = await cem.update(mute=True)
    assert moved == last | {"selfMute": True}
    for api in (voice.api, other_api):
        _, events = await voice.listen(voice.owner, api, caught_up["rev"])
        assert shown(events) == [(False, joined), (True, left), (False, moved)]
        revs = [event["rev"] for event in events]
        assert revs == sorted(revs)
    _, events = await voice.listen(voice.owner, rev=events[-1]["rev"])
    assert shown(events) == []
    assert stayed in await voice.states(voice.lounge)


async def test_events_go_to_those_who_see_the_channel_before_and_after_a_move(voice: VoiceWorkspace) -> None:
    (viewer,) = await voice.api.create_users("viewer")
    await voice.add(viewer)
    await voice.overwrite(voice.stage, viewer, deny=("VIEW_CHANNEL",))
    listener, (caught_up,) = await voice.listen(viewer)
    device = Device(voice.api, voice.member)
    joined = await device.join(voice.lounge)
    await device.join(voice.stage)
    await device.update(video=True)
    _, missed = await voice.listen(viewer, rev=caught_up["rev"])
    assert shown(missed) == [(True, joined)]
    back = await device.join(voice.lounge)
    events = [await next_voice(listener) for _ in range(3)]
    assert [(event["left"], event["state"]) for event in events] == [(False, joined), (True, joined), (False, back)]
    await listener.expect_no_event()
    channel = "query ($id: ID!) { channel(id: $id) { voiceStates { joinedAt } } }"
    assert await voice.api.data(viewer, channel, id=voice.stage) == {"channel": None}
    _, missed = await voice.listen(viewer, rev=caught_up["rev"])
    assert shown(missed) == [(False, back)]


async def test_a_user_moved_out_of_sight_has_left(voice: VoiceWorkspace) -> None:
    (viewer,) = await voice.api.create_users("viewer")
    await voice.add(viewer)
    await voice.overwrite(voice.stage, viewer, deny=("VIEW_CHANNEL",))
    device = Device(voice.api, voice.member)
    joined = await device.join(voice.lounge)
    listener, _ = await voice.listen(viewer)
    await voice.api.data(voice.owner, MODERATE, id=voice.lounge, user=voice.member, to=voice.stage, mute=True)
    left = await next_voice(listener)
    assert (left["left"], left["state"]) == (True, joined)


async def test_too_many_departures_are_a_reset(voice: VoiceWorkspace, others: list[str]) -> None:
    _, (caught_up,) = await voice.listen(voice.owner)
    devices = [Device(voice.api, user) for user in others]
    for device in devices:
        await device.join(voice.lounge)
        await device.leave()
    store = voice.api.services.app.store
    # As if a thousand others had left since the first.
    await store.cache.run([_forget(store, voice, others[0])])
    _, events = await voice.listen(voice.owner, rev=caught_up["rev"])
    assert [event["__typename"] for event in events] == ["WorkspaceCaughtUp"]
    assert events[0]["reset"] is True


def _forget(store: Any, voice: VoiceWorkspace, user: str) -> Call:
    return Call("HDEL", (store.keys.of_clock(voice.id, "voice_left"),), (f"{voice.lounge} {user}",))
