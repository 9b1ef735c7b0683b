"""The end of a mute in a channel is sent also if the sessions in channels are not loaded."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.sessions.changes import logged_change
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from tests.api.channels.session_calls import LIVE, session_of
from tests.api.client import Api
from tests.api.conftest import Deployments, OpenApi
from tests.api.sample_channels import create_sample_channels
from tests.clock import ManualClock


@pytest.mark.parametrize("loss", ["flushed", "evicted", "flushed while away"])
async def test_the_end_of_a_mute_is_sent_if_the_state_was_lost(
    open_api: OpenApi, deployments: Deployments, loss: str
) -> None:
    clock = ManualClock()
    async with open_api(f"channel mute {loss}", clock) as api:
        workspace = await create_sample_channels(api)
        until = clock.ms + 20_000
        device = await api.listen(workspace.member, LIVE) if loss != "flushed while away" else None
        await api.mute(workspace.member, workspace.general, until)
        if device is not None:
            assert (await device.next())["reason"] == "MUTE"
        await api.wait_until_idle()
        if loss == "evicted":
            deployments.evict_user_state(f"channel mute {loss}", workspace.member)
            await api.total_unread(workspace.member)
        else:
            deployments.flush_redis(f"channel mute {loss}")
        if device is None:
            device = await api.listen(workspace.member, LIVE)
        else:
            assert (await device.next())["reset"]
        clock.ms = until
        event = await device.next()
        assert event["reason"] == "UNMUTE"
        (session,) = event["sessions"]
        assert session["conversation"]["id"] == workspace.general and session["muteStatus"] is False
        assert session == await session_of(api, workspace.member, workspace.general)


async def test_the_sessions_in_channels_are_loaded_only_if_such_a_mute_will_end(api: Api) -> None:
    workspace = await create_sample_channels(api)
    store = api.services.app.store
    now = store.clock.now_ms()
    await api.mute(workspace.member, workspace.general)
    await api.mute(workspace.other, workspace.general, now + 60_000)
    await api.wait_until_idle()
    for user, is_loaded in ((workspace.member, 0), (workspace.other, 1)):
        meta = store.keys.of_user(UserId(user), "meta")
        await store.cache.one(Call("DEL", (meta,)))
        await store.sessions.load(UserId(user))
        assert await store.cache.one(Call("HEXISTS", (meta,), ("channels",))) == 0
        await store.sessions.attach(UserId(user), "server", now + 60_000)
        assert await store.cache.one(Call("HEXISTS", (meta,), ("channels",))) == is_loaded


async def test_a_mute_that_is_made_while_they_are_not_loaded_is_known(api: Api) -> None:
    workspace = await create_sample_channels(api)
    store, user = api.services.app.store, UserId(workspace.member)
    meta, until = store.keys.of_user(user, "meta"), store.clock.now_ms() + 60_000
    await store.sessions.load(user)
    muted = ChannelChange(
        ConversationId(workspace.general), (0, 0), values={Session.muted: True, Session.muted_until_ms: until}
    )
    await store.cache.one(store.sessions.apply_call(user, logged_change(muted, until - 60_000, "{}")))
    assert await store.cache.one(Call("HEXISTS", (meta,), ("channels",))) == 0
    _, _, due = await store.sessions.attach(user, "server", until)
    assert await store.cache.one(Call("HEXISTS", (meta,), ("channels",))) == 1 and due is None
