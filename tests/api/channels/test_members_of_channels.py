"""Adding users to channels, removing them from PRIVATE ones, and reading all followed channels at once."""

from __future__ import annotations

import asyncio

import pytest

from store.base.ids import ConversationId
from store.mongo.collections import MEMBERS, members_of
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.channels.session_calls import (
    ADD,
    FOLLOW,
    LIVE,
    READ_ALL,
    REMOVE,
    attention_of,
    change,
    followed_by,
    session_of,
)
from tests.api.client import Api, Refusal
from tests.api.sample_channels import SampleChannels


@pytest.fixture
async def inviter(workspace: SampleChannels) -> str:
    """The moderator, who may invite into the PRIVATE channel."""
    policy = workspace.policy
    roles = dict(policy.roles)
    moderator = roles[workspace.moderator_role]
    roles[moderator.id] = type(moderator)(
        moderator.id, moderator.name, moderator.position, moderator.permissions | Permission.INVITE_MEMBERS
    )
    await workspace.change(type(policy)(policy.workspace, policy.version, policy.owner, roles, {}, policy.channels))
    return workspace.moderator


async def test_added_users_follow_and_can_write(api: Api, workspace: SampleChannels, inviter: str) -> None:
    await api.send(workspace.member, workspace.staff, "before")
    device = await api.listen(workspace.other, LIVE)
    await change(api, inviter, ADD, id=workspace.staff, users=[workspace.other, workspace.member])
    event = await device.next()
    assert event["reason"] == "MEMBERSHIP" and event["sessions"][0]["unreadCount"] == 0
    assert await followed_by(api, workspace.other, workspace.id) == [workspace.staff]
    await api.send(workspace.other, workspace.staff, "hello")
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    assert await followed_by(api, workspace.other, workspace.id) == [workspace.staff]
    assert [message["content"] for message in await api.history(workspace.other, workspace.staff)] == [
        "before",
        "hello",
    ]


async def test_a_removed_user_has_nothing_left(api: Api, workspace: SampleChannels, inviter: str) -> None:
    await change(api, inviter, ADD, id=workspace.staff, users=[workspace.other])
    await api.send(workspace.other, workspace.staff)
    await change(api, inviter, REMOVE, id=workspace.staff, user=workspace.other)
    assert (await api.expect_send_refusal(workspace.other, workspace.staff)).code == "NOT_FOUND"
    assert await session_of(api, workspace.other, workspace.staff) is None
    assert await followed_by(api, workspace.other, workspace.id) == []
    refusal = await api.expect_refusal(inviter, REMOVE, id=workspace.staff, user=workspace.other)
    assert refusal == Refusal("NOT_A_MEMBER", "userId")


async def test_a_returning_user_sees_only_their_memberships(api: Api, workspace: SampleChannels, inviter: str) -> None:
    await workspace.change_channel(workspace.staff, full_history=False)
    for content in ("one", "two"):
        await api.send(inviter, workspace.staff, "hidden")
        await change(api, inviter, ADD, id=workspace.staff, users=[workspace.other])
        await api.send(inviter, workspace.staff, content)
        if content == "one":
            await change(api, inviter, REMOVE, id=workspace.staff, user=workspace.other)
    assert [message["content"] for message in await api.history(workspace.other, workspace.staff)] == ["one", "two"]


async def test_adding_at_once_counts_each_member_once(api: Api, workspace: SampleChannels, inviter: str) -> None:
    users = [workspace.other, workspace.admin]
    await asyncio.gather(*(change(api, inviter, ADD, id=workspace.staff, users=users) for _ in range(5)))
    counted = await change(api, inviter, ADD, id=workspace.staff, users=users)
    rows = await workspace.store.mongo.find(MEMBERS, members_of(ConversationId(workspace.staff)))
    # The sample has written its first two members without counting them.
    assert len(rows) == 4 and counted["memberCount"] == 2


@pytest.mark.parametrize(
    ("name", "query", "variables", "refusal"),
    [
        ("member", ADD, {"users": ["@other"]}, Refusal("FORBIDDEN", None)),
        ("owner", ADD, {"users": ["@other"]}, Refusal("NOT_FOUND", "channelId")),
        ("moderator", ADD, {"users": ["@outsider"]}, Refusal("NOT_A_MEMBER", "userIds")),
        ("moderator", ADD, {"users": [f"u{n}" for n in range(1_001)]}, Refusal("INVALID_INPUT", "userIds")),
        ("member", REMOVE, {"user": "@moderator"}, Refusal("FORBIDDEN", None)),
        ("moderator", REMOVE, {"user": "@moderator"}, Refusal("INVALID_INPUT", "userId")),
        ("moderator", REMOVE, {"user": "@other"}, Refusal("NOT_A_MEMBER", "userId")),
        ("outsider", REMOVE, {"user": "@member"}, Refusal("NOT_FOUND", "channelId")),
    ],
)
async def test_refused_changes_of_members_change_nothing(
    api: Api,
    workspace: SampleChannels,
    inviter: str,
    name: str,
    query: str,
    variables: dict[str, object],
    refusal: Refusal,
) -> None:
    def named(value: object) -> object:
        if isinstance(value, list):
            return [named(each) for each in value]
        return workspace.users[value[1:]] if isinstance(value, str) and value.startswith("@") else value

    before = await api.stored_hashes()
    given = {key: named(value) for key, value in variables.items()}
    assert await api.expect_refusal(workspace.users[name], query, id=workspace.staff, **given) == refusal
    assert await api.stored_hashes() == before


async def test_reading_all_followed_channels_is_one_event(api: Api, workspace: SampleChannels) -> None:
    await workspace.change_channel(workspace.old, is_archived=False)
    for channel in (workspace.general, workspace.old):
        await change(api, workspace.member, FOLLOW, id=channel)
        await api.send(workspace.other, channel, mentions=[workspace.member])
    assert await attention_of(api, workspace.member) == (0, 2)
    device = await api.listen(workspace.member, LIVE)
    assert await change(api, workspace.member, READ_ALL, id=workspace.id) == {"unread": 0, "mentions": 0}
    event = await device.next()
    assert event["reason"] == "READ"
    assert {session["conversation"]["id"] for session in event["sessions"]} == {workspace.general, workspace.old}
    assert await followed_by(api, workspace.member, workspace.id, unread=True) == []
    await change(api, workspace.member, READ_ALL, id=workspace.id)
    await device.expect_no_event()
    assert (await api.expect_refusal(workspace.outsider, READ_ALL, id=workspace.id)).code == "NOT_FOUND"
    refusal = await api.expect_refusal(workspace.member, READ_ALL, id=workspace.id, category="k_1.1")
    assert refusal == Refusal("NOT_FOUND", "categoryId")
