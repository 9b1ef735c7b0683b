"""Voice while Redis is away, and after it."""

from __future__ import annotations

from tests.api.client import Refusal
from tests.api.voice.calls import JOIN, LEAVE, MODERATE, UPDATE, Device, make_voice_workspace
from tests.invariants.two_servers import TwoServers


async def test_without_redis_nobody_is_in_voice_and_states_return_with_it(deployment: TwoServers) -> None:
    voice = await make_voice_workspace(deployment.one)
    device, newcomer = Device(deployment.other, voice.member), Device(deployment.one, voice.owner)
    joined = await device.join(voice.lounge)
    await deployment.lose_redis()
    unavailable = Refusal("UNAVAILABLE", retryable=True)
    assert await newcomer.refused(JOIN, id=voice.lounge) == unavailable
    assert await device.refused(UPDATE, mute=True) == unavailable
    assert await device.refused(LEAVE) == unavailable
    assert await newcomer.refused(LEAVE) == unavailable
    moderation = {"id": voice.lounge, "user": voice.member, "mute": True}
    assert await deployment.one.expect_refusal(voice.owner, MODERATE, **moderation) == unavailable
    assert await voice.everything() == [[], []]
    await deployment.bring_redis_back()
    await voice.wait_for(voice.lounge, voice.member)
    assert await voice.states(voice.lounge) == [joined]
    await device.leave()
    assert await voice.everything() == [[], []]
