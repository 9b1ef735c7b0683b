"""Synchronisation of followed channels: an old state and what changed since are the present state."""

from __future__ import annotations

import random

import pytest

from resolvers.following import synchronising
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.channels.session_calls import FOLLOW, MUTE, READ, SYNC_CHANNELS, ChannelClient, change
from tests.api.client import SYNC, Api
from tests.api.requests.test_budgets import Meter
from tests.api.sample_channels import SampleChannels


@pytest.fixture
def without_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, channels are returned again for some seconds."""
    monkeypatch.setattr(synchronising, "MARGIN_MS", 0)


async def test_a_new_client_gets_all_followed_channels(api: Api, workspace: SampleChannels) -> None:
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    await api.send(workspace.member, workspace.staff)
    client = ChannelClient(api, workspace.member, page=1)
    await client.sync()
    assert client.channels.keys() == {workspace.general}
    await api.send(workspace.other, workspace.general, mentions=[workspace.member])
    await client.sync()
    assert client.channels[workspace.general]["messageCount"] == 1
    assert client.attention == {"unread": 0, "mentions": 1}


async def test_only_changed_channels_are_returned(api: Api, workspace: SampleChannels, without_margin: None) -> None:
    await workspace.change_channel(workspace.old, is_archived=False)
    for channel in (workspace.general, workspace.old):
        await change(api, workspace.member, FOLLOW, id=channel)
    client = ChannelClient(api, workspace.member)
    await client.sync()
    # The clock of the workspace began with the first event, some time ahead.
    while client.received:
        await client.sync()
    for act in (
        lambda: api.send(workspace.other, workspace.old),
        lambda: change(api, workspace.member, READ, id=workspace.old),
        lambda: change(api, workspace.member, MUTE, id=workspace.old, muted=True),
    ):
        await act()
        await api.wait_until_idle()
        await client.sync()
        assert client.received == 1
    await client.sync()
    assert client.received == 0


async def test_unfollowed_and_hidden_channels_are_gone(api: Api, workspace: SampleChannels) -> None:
    await workspace.change_channel(workspace.old, is_archived=False)
    for channel in (workspace.general, workspace.old):
        await change(api, workspace.member, FOLLOW, id=channel)
    client = ChannelClient(api, workspace.member)
    await client.sync()
    await change(api, workspace.member, FOLLOW, id=workspace.general, follow=False)
    await client.sync()
    assert client.channels.keys() == {workspace.old}
    await workspace.overwrite(workspace.old, workspace.member, Permission.VIEW_CHANNEL)
    await api.send(workspace.other, workspace.old)
    await client.sync()
    assert client.channels == {}


@pytest.mark.parametrize("cursor", ["nonsense", "other user"])
async def test_an_unusable_cursor_is_a_reset(api: Api, workspace: SampleChannels, cursor: str) -> None:
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    if cursor == "other user":
        cursor = (await api.data(workspace.other, SYNC_CHANNELS))["syncChannels"]["cursor"]
    delta = (await api.data(workspace.member, SYNC_CHANNELS, since=cursor))["syncChannels"]
    assert delta["reset"] and [channel["id"] for channel in delta["channels"]] == [workspace.general]


async def test_cursors_of_sessions_and_channels_are_the_same(api: Api, workspace: SampleChannels) -> None:
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    sessions = (await api.data(workspace.member, SYNC))["syncSessions"]
    await api.send(workspace.other, workspace.general)
    await api.send(workspace.other, workspace.member)
    delta = (await api.data(workspace.member, SYNC_CHANNELS, since=sessions["cursor"]))["syncChannels"]
    assert [channel["messageCount"] for channel in delta["channels"]] == [1]
    assert delta["attention"] == {"unread": 1, "mentions": 0}
    after = (await api.data(workspace.member, SYNC, since=delta["cursor"]))["syncSessions"]
    assert not after["reset"] and after["sessions"] == []


@pytest.mark.parametrize("seed", range(4))
async def test_an_old_state_and_its_changes_are_the_present_state(
    api: Api, workspace: SampleChannels, without_margin: None, seed: int
) -> None:
    random_ = random.Random(seed)
    await workspace.change_channel(workspace.old, is_archived=False)
    user, channels = workspace.member, (workspace.general, workspace.old, workspace.staff)
    client = ChannelClient(api, user, page=random_.choice((1, 2, 100)))

    async def send() -> None:
        mentions = [user] if random_.random() < 0.5 else []
        await api.send(workspace.moderator, random_.choice(channels), mentions=mentions)

    async def follow() -> None:
        await change(api, user, FOLLOW, id=random_.choice(channels[:2]), follow=random_.random() < 0.7)

    async def read() -> None:
        await change(api, user, READ, id=random_.choice(channels))

    async def mute() -> None:
        await change(api, user, MUTE, id=random_.choice(channels), muted=random_.random() < 0.5)

    async def lose() -> None:
        await api.services.app.store.cache.run([Call("FLUSHALL", ())])

    for _ in range(8):
        for act in random_.choices((send, follow, read, mute, lose), (5, 2, 3, 2, 0.4), k=4):
            await act()
        await api.wait_until_idle()
        await client.sync()
        fresh = ChannelClient(api, user)
        await fresh.sync()
        assert client.channels == fresh.channels and client.attention == fresh.attention


async def test_budget_of_synchronising(api: Api, workspace: SampleChannels, without_margin: None) -> None:
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    client = ChannelClient(api, workspace.member)
    await client.sync()
    while client.received:
        await client.sync()
    cursor = (await api.data(workspace.member, SYNC_CHANNELS))["syncChannels"]["cursor"]
    query = """query ($since: Cursor) { syncChannels(since: $since) {
        channels { id messageCount } gone cursor attention { unread mentions } } }"""

    async def sync() -> None:
        assert (await api.data(workspace.member, query, since=cursor))["syncChannels"]["channels"]

    meter = Meter(api)
    await meter.expect("syncChannels", sync, 0, 2, prepare=lambda: meter.send(workspace.other, workspace.general))
    listed = "query ($id: ID!) { followedChannels(workspaceId: $id) { edges { node { id session { unreadCount } } } } }"
    await meter.expect("followedChannels", lambda: api.data(workspace.member, listed, id=workspace.id), 0, 2)
    for query in (
        "mutation ($id: ID!) { markRead(conversationId: $id) { readSeq unreadCount } }",
        "mutation ($id: ID!) { setUnread(conversationId: $id) { unreadStatus } }",
    ):

        async def change_session(query: str = query) -> None:
            await api.data(workspace.member, query, id=workspace.general)

        async def prepare() -> None:
            await meter.send(workspace.member, workspace.general)
            await meter.send(workspace.other, workspace.general)

        # Two round trips, and the lock, which is released with the change.
        await meter.expect("a change of a session in a channel", change_session, 1, 3, prepare=prepare)
