"""Bans from the deployment end the voice state of the user, whose device loses its connection at the same time."""

from __future__ import annotations

from tests.api.client import Api
from tests.api.moderation.calls import ADMIN, ban, unban
from tests.api.voice.calls import Device, VoiceWorkspace


async def test_a_user_who_is_banned_from_the_deployment_is_in_no_voice_channel(api: Api, voice: VoiceWorkspace) -> None:
    device = Device(api, voice.member)
    await device.join(voice.lounge)
    device.disconnect()
    await ban(api, ADMIN, None, voice.member)
    try:
        assert await voice.users(voice.lounge) == []
    finally:
        await unban(api, ADMIN, None, voice.member)
