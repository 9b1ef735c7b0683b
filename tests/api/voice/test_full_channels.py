"""The largest number of users in a voice channel."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.voice.calls import JOIN, MODERATE, Device, VoiceWorkspace, make_voice_workspace

LIMIT = 2


@pytest.fixture(scope="module")
async def small(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("small", max_voice_channel_users=LIMIT) as api:
        yield api


@pytest.fixture
async def voice(small: Api) -> VoiceWorkspace:
    return await make_voice_workspace(small)


async def test_a_full_channel_takes_nobody_else(voice: VoiceWorkspace) -> None:
    (other,) = await voice.api.create_users("other")
    await voice.add(other)
    first, _, third = [Device(voice.api, user) for user in (voice.owner, voice.member, other)]
    await first.join(voice.lounge)
    await Device(voice.api, voice.member).join(voice.lounge)
    await third.join(voice.stage)
    before = await voice.everything()
    assert await third.refused(JOIN, id=voice.lounge) == Refusal("LIMIT_REACHED", "channelId")
    refusal = await voice.api.expect_refusal(voice.owner, MODERATE, id=voice.stage, user=other, to=voice.lounge)
    assert refusal == Refusal("LIMIT_REACHED", "moveToChannelId")
    assert await voice.everything() == before
    # Those who are inside may join again, also with another device.
    await first.join(voice.lounge)
    await Device(voice.api, voice.owner).join(voice.lounge)
    await voice.api.data(voice.owner, MODERATE, id=voice.lounge, user=voice.owner, disconnect=True)
    await third.join(voice.lounge)
    assert sorted(await voice.users(voice.lounge)) == sorted([voice.member, other])


async def test_users_who_join_at_once_do_not_pass_the_limit(voice: VoiceWorkspace) -> None:
    users = await voice.api.create_users("a", "b", "c", "d", "e")
    await voice.add(*users)
    answers = await gather_all(*(Device(voice.api, user).run(JOIN, id=voice.lounge) for user in users))
    assert sum("errors" not in answer for answer in answers) == LIMIT
    assert len(await voice.users(voice.lounge)) == LIMIT
