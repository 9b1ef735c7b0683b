"""Following channels: from now on, in the user's list, counted, and apart from reading."""

from __future__ import annotations

import asyncio

import pytest

from store.base.errors import Superseded
from store.base.ids import ConversationId
from store.channels import channel_follows
from store.mongo.collections import MEMBERS, members_of
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.channels.session_calls import FOLLOW, FOLLOWED, LIVE, READ, change, followed_by, session_of
from tests.api.client import Api, Refusal
from tests.api.sample_channels import SampleChannels

COUNT = "query ($id: ID!) { channel(id: $id) { memberCount viewerFollows } }"


async def test_a_follower_has_read_everything_so_far(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.other, workspace.general, "before", mentions=[workspace.member])
    device = await api.listen(workspace.member, LIVE)
    followed = await change(api, workspace.member, FOLLOW, id=workspace.general)
    assert followed["viewerFollows"] and followed["memberCount"] == 1
    assert followed["session"] == {"readSeq": 1, "readCount": 1, "unreadCount": 0}
    event = await device.next()
    assert event["reason"] == "MEMBERSHIP" and event["sessions"][0]["unreadMentionCount"] == 0
    await api.send(workspace.other, workspace.general, "after")
    assert await followed_by(api, workspace.member, workspace.id) == [workspace.general]
    found = await session_of(api, workspace.member, workspace.general)
    assert found is not None and found["unreadCount"] == 1


async def test_unfollowing_keeps_the_read_position(api: Api, workspace: SampleChannels) -> None:
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    await api.send(workspace.other, workspace.general)
    device = await api.listen(workspace.member, LIVE)
    left = await change(api, workspace.member, FOLLOW, id=workspace.general, follow=False)
    assert not left["viewerFollows"] and left["memberCount"] == 0
    assert left["session"] == {"readSeq": 0, "readCount": 0, "unreadCount": 1}
    assert (await device.next())["reason"] == "MEMBERSHIP"
    assert await followed_by(api, workspace.member, workspace.id) == []
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert await followed_by(api, workspace.member, workspace.id) == []


async def test_following_again_changes_nothing(api: Api, workspace: SampleChannels) -> None:
    for follow in (True, False):
        first = await change(api, workspace.member, FOLLOW, id=workspace.general, follow=follow)
        device = await api.listen(workspace.member, LIVE)
        before = await api.stored_hashes()
        assert await change(api, workspace.member, FOLLOW, id=workspace.general, follow=follow) == first
        assert await api.stored_hashes() == before
        await device.expect_no_event()


async def test_devices_that_follow_at_once_are_counted_once(api: Api, workspace: SampleChannels) -> None:
    users = (workspace.member, workspace.other, workspace.moderator)
    for follow in (True, False, True):
        calls = [change(api, user, FOLLOW, id=workspace.general, follow=follow) for user in users for _ in range(4)]
        await asyncio.gather(*calls)
        rows = await api.services.app.store.mongo.find(MEMBERS, members_of(ConversationId(workspace.general)))
        found = (await api.data(workspace.member, COUNT, id=workspace.general))["channel"]
        assert len(rows) == found["memberCount"] == (len(users) if follow else 0)
        assert found["viewerFollows"] is follow


async def test_unfollowing_a_private_channel_leaves_it(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.staff)
    left = await change(api, workspace.member, FOLLOW, id=workspace.staff, follow=False)
    assert left["id"] == workspace.staff
    assert (await api.data(workspace.member, COUNT, id=workspace.staff))["channel"] is None
    assert await session_of(api, workspace.member, workspace.staff) is None
    refusal = await api.expect_refusal(workspace.member, FOLLOW, id=workspace.staff)
    assert refusal == Refusal("NOT_FOUND", "channelId")
    refused = await api.expect_send_refusal(workspace.member, workspace.staff)
    assert refused.code == "NOT_FOUND"


@pytest.mark.parametrize("follow", [True, False])
async def test_channels_that_a_user_cannot_see_cannot_be_followed(
    api: Api, workspace: SampleChannels, follow: bool
) -> None:
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    before = await api.stored_hashes()
    places = [(workspace.owner, workspace.staff), (workspace.outsider, workspace.general)]
    for user, channel in [*places, (workspace.member, workspace.general), (workspace.member, "c_1.1")]:
        refusal = await api.expect_refusal(user, FOLLOW, id=channel, follow=follow)
        assert refusal == Refusal("NOT_FOUND", "channelId")
    assert await api.stored_hashes() == before


async def test_an_archived_channel_gets_no_new_followers(api: Api, workspace: SampleChannels) -> None:
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(workspace.member, FOLLOW, id=workspace.old)
    assert refusal == Refusal("ARCHIVED", "channelId")
    assert await api.stored_hashes() == before
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    await workspace.change_channel(workspace.general, is_archived=True)
    assert await followed_by(api, workspace.member, workspace.id) == [workspace.general]
    await change(api, workspace.member, FOLLOW, id=workspace.general, follow=False)
    assert await followed_by(api, workspace.member, workspace.id) == []


async def test_the_number_of_followed_channels_is_limited(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_follows, "MAX_FOLLOWED", 1)
    await workspace.change_channel(workspace.old, is_archived=False)
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    before = await api.stored_hashes()
    assert (await api.expect_refusal(workspace.member, FOLLOW, id=workspace.old)).code == "LIMIT_REACHED"
    assert await api.stored_hashes() == before


async def test_followed_channels_are_listed_by_position(api: Api, workspace: SampleChannels) -> None:
    await workspace.change_channel(workspace.old, is_archived=False)
    for channel in (workspace.old, workspace.general):
        await change(api, workspace.member, FOLLOW, id=channel)
    for _ in range(2):
        listed = await followed_by(api, workspace.member, workspace.id)
        assert listed == [workspace.general, workspace.old]
        await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    page = (await api.data(workspace.member, FOLLOWED, id=workspace.id, first=1))["followedChannels"]
    assert page["pageInfo"]["hasNextPage"]
    after = page["pageInfo"]["endCursor"]
    assert await followed_by(api, workspace.member, workspace.id, after=after) == [workspace.old]
    await api.send(workspace.other, workspace.old)
    assert await followed_by(api, workspace.member, workspace.id, unread=True) == [workspace.old]
    await change(api, workspace.member, READ, id=workspace.old)
    assert await followed_by(api, workspace.member, workspace.id, unread=True) == []
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    assert await followed_by(api, workspace.member, workspace.id) == [workspace.old]
    assert await followed_by(api, workspace.outsider, workspace.id) == []


async def test_following_is_repeated_while_rights_change(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = 12

    async def is_superseded(*_: object) -> None:
        nonlocal changes
        changes -= 1
        if changes >= 0:
            raise Superseded

    monkeypatch.setattr(channel_follows.ChannelFollows, "_require_version", is_superseded)
    assert (await change(api, workspace.member, FOLLOW, id=workspace.general))["viewerFollows"]
    assert changes == -1
