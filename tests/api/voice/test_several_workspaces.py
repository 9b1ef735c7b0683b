"""A device is in one voice channel over all workspaces, whatever happens while it joins."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.redis.cache import Call
from tests.api.client import Api, Refusal
from tests.api.voice.calls import JOIN, Device, VoiceWorkspace, make_voice_workspace


@pytest.fixture
async def other(voice: VoiceWorkspace) -> VoiceWorkspace:
    """Another workspace with the same member."""
    made = await make_voice_workspace(voice.api)
    await made.add(voice.member)
    return made


async def test_a_refused_join_leaves_the_device_where_it_was(
    voice: VoiceWorkspace, other: VoiceWorkspace, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(voice.api, voice.member)
    joined = await device.join(voice.lounge)
    with monkeypatch.context() as patch:
        store = voice.api.services.app.store.voice
        patch.setattr(store, "join", partial(_join_full, store.join))
        assert await device.refused(JOIN, id=other.lounge) == Refusal("LIMIT_REACHED", "channelId")
    device.disconnect()
    device.connect(other_api)
    await other_api.services.app.voice_devices.renew()
    assert await device.update() == joined
    device.disconnect()
    device.connect(voice.api)
    assert await device.update() == joined


async def test_a_join_after_a_refused_one_ends_the_first_state(
    voice: VoiceWorkspace, other: VoiceWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, third = Device(voice.api, voice.member), await make_voice_workspace(voice.api)
    await third.add(voice.member)
    await device.join(voice.lounge)
    with monkeypatch.context() as patch:
        store = voice.api.services.app.store.voice
        patch.setattr(store, "join", partial(_join_full, store.join))
        assert await device.refused(JOIN, id=other.lounge) == Refusal("LIMIT_REACHED", "channelId")
    await device.join(third.lounge)
    assert await voice.users(voice.lounge) == []


async def test_a_join_whose_rights_are_judged_twice_ends_the_first_state(
    voice: VoiceWorkspace, other: VoiceWorkspace
) -> None:
    device, store = Device(voice.api, voice.member), voice.api.services.app.store
    await device.join(voice.lounge)
    # As if Redis had evicted the policy version of the workspace.
    await store.cache.run([Call("HDEL", (store.keys.clock(other.id)[0],), ("pv",))])
    await device.join(other.lounge)
    assert (await voice.users(voice.lounge), await other.users(other.lounge)) == ([], [voice.member])


async def test_joins_at_once_in_two_workspaces_leave_one_state(voice: VoiceWorkspace, other: VoiceWorkspace) -> None:
    device = Device(voice.api, voice.member)
    for _ in range(10):
        await asyncio.gather(device.join(voice.lounge), device.join(other.lounge))
        found = [*await voice.users(voice.lounge), *await other.users(other.lounge)]
        assert found == [voice.member]


async def test_a_join_whose_answer_is_lost_leaves_no_state_of_a_device_that_is_gone(
    voice: VoiceWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, app = Device(voice.api, voice.member), voice.api.services.app
    store = app.store.voice
    join = store.join

    async def lose_answer(*args: object, **named: object) -> object:
        await join(*args, **named)  # type: ignore[arg-type]
        raise Unreachable("the answer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(store, "join", lose_answer)
        assert (await device.refused(JOIN, id=voice.lounge)).code == "UNAVAILABLE"
    device.disconnect()
    for _ in range(2):
        await app.voice_devices.renew()
    (state,) = (await store.read(voice.id)).states
    assert state.gone_at_ms


@pytest.mark.parametrize("failing", ["note_device", "end"])
async def test_a_join_that_fails_half_way_ends_the_state_in_another_workspace(
    voice: VoiceWorkspace, other: VoiceWorkspace, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    device, app = Device(voice.api, voice.member), voice.api.services.app
    await device.join(voice.lounge)

    async def fail(*_: object) -> None:
        raise Unreachable("Redis is away")

    with monkeypatch.context() as patch:
        patch.setattr(app.store.voice, failing, fail)
        assert (await device.refused(JOIN, id=other.lounge)).code == "UNAVAILABLE"
    await app.voice_devices.renew()
    assert (await voice.users(voice.lounge), await other.users(other.lounge)) == ([], [voice.member])
    assert (await device.update(video=True))["channelId"] == other.lounge


async def test_a_join_that_never_reached_redis_keeps_the_state_in_another_workspace(
    voice: VoiceWorkspace, other: VoiceWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, app = Device(voice.api, voice.member), voice.api.services.app
    joined = await device.join(voice.lounge)

    async def fail(*_: object, **__: object) -> None:
        raise Unreachable("Redis is away")

    with monkeypatch.context() as patch:
        patch.setattr(app.store.voice, "join", fail)
        assert (await device.refused(JOIN, id=other.lounge)).code == "UNAVAILABLE"
    await app.voice_devices.renew()
    assert await voice.states(voice.lounge) == [joined]
    assert await device.update() == joined


async def _join_full(join: Any, *args: Any, **named: Any) -> Any:
    """Join as if the channel were full."""
    return await join(*args, **named | {"limit": 0})
