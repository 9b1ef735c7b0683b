"""Voice states after a loss of Redis: their servers write them again."""

from __future__ import annotations

from store.redis.cache import Call
from tests.api.client import Api, Refusal
from tests.api.conftest import Deployments
from tests.api.voice.calls import UPDATE, Device, VoiceWorkspace, make_voice_workspace


async def test_states_return_after_a_loss_with_their_time_of_joining(losing_api: Api, deployments: Deployments) -> None:
    voice = await make_voice_workspace(losing_api)
    device, gone, owner = (Device(losing_api, user) for user in (voice.member, voice.member, voice.owner))
    await gone.join(voice.lounge)
    await device.join(voice.lounge)
    states = [await device.update(video=True), await owner.join(voice.lounge)]
    _, (caught_up,) = await voice.listen(voice.owner)
    deployments.flush_redis("lost")
    await losing_api.services.housekeeper.check_redis()
    await voice.wait_for(voice.lounge, voice.member, voice.owner)
    assert await voice.states(voice.lounge) == states
    _, events = await voice.listen(voice.owner, rev=caught_up["rev"])
    assert events[-1]["reset"] is True
    assert (await device.update(video=False))["video"] is False
    assert await gone.refused(UPDATE) == Refusal("NOT_FOUND")
    await owner.leave()
    assert await voice.users(voice.lounge) == [voice.member]


async def test_a_lost_hash_alone_returns(api: Api, voice: VoiceWorkspace) -> None:
    device = Device(api, voice.member)
    joined = await device.join(voice.lounge)
    app = api.services.app
    await app.store.cache.run([Call("DEL", (app.store.keys.of_clock(voice.id, "voice"),))])
    assert await voice.states(voice.lounge) == []
    await app.voice_devices._compare()
    assert await voice.states(voice.lounge) == [joined]
    await device.leave()
    await app.voice_devices._compare()
    assert await voice.states(voice.lounge) == []


async def test_a_state_that_ended_before_a_loss_does_not_return(losing_api: Api, deployments: Deployments) -> None:
    voice = await make_voice_workspace(losing_api)
    device, owner = Device(losing_api, voice.member), Device(losing_api, voice.owner)
    await device.join(voice.lounge)
    await owner.join(voice.lounge)
    await device.leave()
    deployments.flush_redis("lost")
    await losing_api.services.housekeeper.check_redis()
    await voice.wait_for(voice.lounge, voice.owner)


async def test_rights_that_ended_with_redis_lost_end_the_restored_state(
    losing_api: Api, deployments: Deployments
) -> None:
    voice = await make_voice_workspace(losing_api)
    await Device(losing_api, voice.member).join(voice.lounge)
    deployments.flush_redis("lost")
    await voice.overwrite(voice.lounge, voice.member, deny=("CONNECT",))
    await losing_api.services.housekeeper.check_redis()
    await losing_api.services.app.voice_devices.renew()
    await voice.wait_for(voice.lounge)
