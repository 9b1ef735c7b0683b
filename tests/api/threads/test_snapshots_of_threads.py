"""An old snapshot of sessions with threads and the events since then equal a fresh snapshot."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.device import ApiDevice
from tests.api.sample_channels import create_sample_channels
from tests.api.sample_group import create_sample_group
from tests.api.threads.test_following_threads import follow, start_thread
from tests.api.workspaces.role_calls import overwrite


@pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "away"])
async def test_a_device_has_the_threads_of_its_user(api: Api, other_api: Api, is_connected: bool) -> None:
    sample = await create_sample_group(api)
    thread = await start_thread(api, sample)
    user = sample.other_member
    device = ApiDevice(api, user)
    await device.start()
    steps = (
        lambda: follow(api, user, thread),
        lambda: api.send(sample.member, thread, "for you", mentions=[user]),
        lambda: api.mark_read(user, thread, 1),
        lambda: follow(api, user, thread, on=False),
        lambda: api.send(sample.member, thread, "not for you yet"),
        lambda: api.mark_read(user, thread),
        lambda: follow(api, user, thread),
        lambda: api.send(sample.member, thread, "for all"),
        lambda: api.leave(user, sample.group),
        lambda: api.send(sample.member, thread, "not for you"),
        lambda: api.invite(sample.owner, sample.group, user),
        lambda: api.send(sample.member, thread, "for all again"),
    )
    for step in steps:
        if not is_connected:
            await device.stop()
        await step()
        await api.wait_until_idle()
        if not is_connected:
            await device.resume(other_api)
        await device.agrees()


async def test_a_device_loses_the_threads_of_a_channel_that_its_user_can_no_longer_see(api: Api) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = (await api.send(sample.member, parent["id"], "reply"))["message"]["conversationId"]
    await follow(api, sample.other, thread)
    device = ApiDevice(api, sample.other)
    await device.start()
    for deny in (["VIEW_CHANNEL"], []):
        await overwrite(api, sample.owner, channel=sample.general, user=sample.other, deny=deny)
        await api.send(sample.member, thread, "more")
        await api.wait_until_idle()
        await device.agrees()
