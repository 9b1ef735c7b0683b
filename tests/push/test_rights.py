"""Nobody is shown what they may not read when the push is sent; and who is notified in channels and threads."""

from __future__ import annotations

import pytest

from resolvers.push.worker.recipients import PAGE
from resolvers.users.callers import CallerRole
from tests.api.channels.calls import ADD, Made, make_workspace
from tests.api.client import gather_all, make_caller, private_id
from tests.api.threads.calls import thread_of
from tests.api.workspaces.calls import nickname
from tests.api.workspaces.role_calls import create_role, everyone, overwrite, set_roles
from tests.push.pushing import Pushing

FOLLOW = "mutation ($id: ID!, $on: Boolean! = true) { followChannel(channelId: $id, follow: $on) { id } }"
LEAVE = "mutation ($id: ID!) { leaveWorkspace(workspaceId: $id) }"
FOLLOW_THREAD = "mutation ($id: ID!, $on: Boolean! = true) { followThread(threadId: $id, follow: $on) { id } }"


class Channel:
    """A channel with its owner and members: `follower` follows it, `other` does not. All have phones."""

    def __init__(self, pushing: Pushing, made: Made, follower: str, other: str, id: str) -> None:
        self.pushing, self.made, self.follower, self.other, self.id = pushing, made, follower, other, id
        self.owner, self.workspace = made.owner, made.id


@pytest.fixture
async def channel(pushing: Pushing) -> Channel:
    made = await make_workspace(pushing.api)
    follower, other = await pushing.create_users("follower", "other")
    await pushing.add_device(made.owner)
    service = make_caller("service", CallerRole.SERVICE)
    await pushing.api.data(service, ADD, id=made.id, users=[follower, other])
    id = (await made.create("trails"))["id"]
    await pushing.api.data(follower, FOLLOW, id=id)
    await pushing.api.upsert_users({"id": made.owner, "displayName": "Olga"})
    return Channel(pushing, made, follower, other, id)


async def test_a_removed_member_gets_nothing(pushing: Pushing) -> None:
    alice, bob, carol, dave = await pushing.create_users("alice", "bob", "carol", "dave")
    group = await pushing.api.create_group(alice, bob, carol, dave)
    await pushing.send(alice, group, "a secret")
    await pushing.api.remove(alice, group, bob)
    await pushing.expect(bob)
    assert pushing.service.texts(carol) == [("Group", "Alice: a secret")]


async def test_a_member_who_left_gets_nothing_more_and_loses_the_notification(pushing: Pushing) -> None:
    alice, bob, carol, dave = await pushing.create_users("alice", "bob", "carol", "dave")
    group = await pushing.api.create_group(alice, bob, carol, dave)
    await pushing.send(alice, group, "shown")
    await pushing.expect(bob, ("Group", "Alice: shown"))
    await pushing.send(alice, group, "a secret")
    await pushing.api.leave(bob, group)
    await pushing.pass_time(10)
    assert pushing.service.texts(bob) == [("Group", "Alice: shown")]
    assert len(pushing.service.quiet_to(bob)) == 1


async def test_a_new_member_is_not_notified_of_earlier_messages(pushing: Pushing) -> None:
    alice, bob, carol, dave = await pushing.create_users("alice", "bob", "carol", "dave")
    group = await pushing.api.create_group(alice, bob, carol)
    await pushing.send(alice, group, "a secret")
    await pushing.api.invite(alice, group, dave)
    await pushing.expect(dave)
    assert pushing.service.texts(bob) == [("Group", "Alice: a secret")]


async def test_a_channel_notifies_those_who_follow_it(channel: Channel) -> None:
    pushing = channel.pushing
    await nickname(pushing.api, channel.owner, channel.workspace, "The Boss")
    await pushing.send(channel.owner, channel.id, "who comes?")
    await pushing.expect(channel.follower, ("#trails (Hikers)", "The Boss: who comes?"))
    assert pushing.service.texts(channel.other) == []


async def test_a_mention_in_a_channel_notifies_also_those_who_do_not_follow_it(channel: Channel) -> None:
    pushing = channel.pushing
    await pushing.send(channel.owner, channel.id, "you!", mentions=[channel.other])
    await pushing.expect(channel.other, ("#trails (Hikers)", "Olga: you!"))


async def _send_burst(pushing: Pushing, sender: str, to: str) -> None:
    """Send more messages than decisions read."""
    for _ in range(PAGE // 10 + 1):
        await gather_all(*(pushing.send(sender, to, "chatter") for _ in range(10)))


async def test_a_mention_before_a_burst_in_a_channel_needs_no_following(channel: Channel) -> None:
    pushing = channel.pushing
    await pushing.send(channel.owner, channel.id, "you!", mentions=[channel.other])
    await _send_burst(pushing, channel.owner, channel.id)
    await pushing.expect(channel.other, ("#trails (Hikers)", "Olga: you!"))
    assert pushing.service.texts(channel.follower) == [("#trails (Hikers)", "Olga: chatter")]


@pytest.mark.parametrize("is_recalled", [False, True])
async def test_a_mention_before_a_burst_notifies_those_who_want_only_mentions(
    pushing: Pushing, is_recalled: bool
) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol)
    for user in (bob, carol):
        await pushing.set_level(user, group, "MENTIONS")
    message = await pushing.send(alice, group, "you!", mentions=[bob])
    await _send_burst(pushing, alice, group)
    if is_recalled:
        await pushing.api.recall(alice, message["id"])
    await pushing.expect(bob, *([] if is_recalled else [("Group", "Alice: you!")]))
    assert pushing.service.to(carol) == []


async def test_a_recalled_mention_loses_its_notification_for_non_followers(
    channel: Channel,
) -> None:
    pushing = channel.pushing
    message = await pushing.send(channel.owner, channel.id, "you!", mentions=[channel.other])
    await pushing.expect(channel.other, ("#trails (Hikers)", "Olga: you!"))
    await pushing.api.recall(channel.owner, message["id"])
    await pushing.work()
    assert len(pushing.service.quiet_to(channel.other)) == 1


@pytest.mark.parametrize("suppresses", [False, True])
async def test_a_mention_of_everybody_notifies_followers_who_do_not_suppress_it(
    channel: Channel, suppresses: bool
) -> None:
    pushing = channel.pushing
    await pushing.set_level(channel.follower, channel.workspace, "MENTIONS", suppresses)
    await pushing.send(channel.owner, channel.id, "plain")
    await pushing.expect(channel.follower)
    await pushing.send(channel.owner, channel.id, "everybody", mentionAll=True)
    await pushing.work()
    assert bool(pushing.service.texts(channel.follower)) is not suppresses
    assert pushing.service.texts(channel.other) == []


async def test_a_mentioned_role_notifies_its_members(channel: Channel) -> None:
    pushing, api = channel.pushing, channel.pushing.api
    role = await create_role(api, channel.owner, channel.workspace, "guides", isMentionable=True)
    await set_roles(api, channel.owner, channel.workspace, channel.other, role)
    await pushing.set_level(channel.follower, channel.id, "MENTIONS")
    await pushing.send(channel.owner, channel.id, "guides!", mentionRoleIds=[role])
    await pushing.expect(channel.other, ("#trails (Hikers)", "Olga: guides!"))
    assert pushing.service.texts(channel.follower) == []


@pytest.mark.parametrize(("workspace", "of_channel", "notifies"), [("NONE", None, False), ("NONE", "ALL", True)])
async def test_a_channel_has_the_level_of_its_workspace(
    channel: Channel, workspace: str, of_channel: str | None, notifies: bool
) -> None:
    pushing = channel.pushing
    await pushing.set_level(channel.follower, channel.workspace, workspace)
    if of_channel is not None:
        await pushing.set_level(channel.follower, channel.id, of_channel)
    await pushing.send(channel.owner, channel.id)
    await pushing.work()
    assert bool(pushing.service.texts(channel.follower)) is notifies


async def test_a_user_who_lost_the_right_to_see_a_channel_gets_nothing(channel: Channel) -> None:
    pushing, api = channel.pushing, channel.pushing.api
    await pushing.send(channel.owner, channel.id, "a secret")
    role = everyone(channel.workspace)
    await overwrite(api, channel.owner, channel=channel.id, role=role, deny=["VIEW_CHANNEL"])
    await pushing.expect(channel.follower)


async def test_a_user_without_the_right_to_read_the_history_gets_no_text(channel: Channel) -> None:
    pushing, api = channel.pushing, channel.pushing.api
    await pushing.send(channel.owner, channel.id, "a secret")
    role = everyone(channel.workspace)
    await overwrite(api, channel.owner, channel=channel.id, role=role, deny=["READ_HISTORY"])
    await pushing.expect(channel.follower)


async def test_a_user_who_left_the_workspace_gets_nothing(channel: Channel) -> None:
    pushing = channel.pushing
    await pushing.send(channel.owner, channel.id, "a secret")
    await pushing.api.data(channel.follower, LEAVE, id=channel.workspace)
    await pushing.expect(channel.follower)


async def test_a_channel_that_is_no_longer_followed_notifies_nobody(channel: Channel) -> None:
    pushing = channel.pushing
    await pushing.send(channel.owner, channel.id)
    await pushing.api.data(channel.follower, FOLLOW, id=channel.id, on=False)
    await pushing.expect(channel.follower)


async def test_reading_a_channel_removes_its_notification(channel: Channel) -> None:
    pushing = channel.pushing
    await pushing.send(channel.owner, channel.id)
    await pushing.expect(channel.follower, ("#trails (Hikers)", "Olga: hello"))
    await pushing.api.mark_read(channel.follower, channel.id)
    await pushing.work()
    assert len(pushing.service.quiet_to(channel.follower)) == 1


async def test_replies_notify_those_who_follow_the_thread(channel: Channel) -> None:
    pushing, api = channel.pushing, channel.pushing.api
    parent = await pushing.send(channel.follower, channel.id, "who has a map?")
    await pushing.send(channel.follower, parent["id"], "of the north?")
    await pushing.work()
    pushing.service.pushes.clear()
    await pushing.send(channel.owner, thread_of(parent), "I have")
    await pushing.expect(channel.follower, ("#trails (Hikers)", "Olga: I have"))
    assert pushing.service.texts(channel.other) == []
    await api.data(channel.other, FOLLOW_THREAD, id=thread_of(parent))
    await pushing.pass_time(10)
    await pushing.send(channel.owner, thread_of(parent), "two even")
    await pushing.expect(channel.other, ("#trails (Hikers)", "Olga: two even"))


async def test_a_mention_in_a_thread_notifies_also_those_who_do_not_follow_it(channel: Channel) -> None:
    pushing = channel.pushing
    parent = await pushing.send(channel.owner, channel.id, "who has a map?")
    await pushing.send(channel.owner, parent["id"], "you?", mentions=[channel.other])
    await pushing.work()
    assert ("#trails (Hikers)", "Olga: you?") in pushing.service.texts(channel.other)


async def test_a_thread_has_the_level_of_its_channel_unless_it_has_its_own(channel: Channel) -> None:
    pushing = channel.pushing
    parent = await pushing.send(channel.follower, channel.id, "who has a map?")
    await pushing.send(channel.follower, parent["id"], "one")
    await pushing.work()
    pushing.service.pushes.clear()
    await pushing.set_level(channel.follower, channel.id, "NONE")
    await pushing.pass_time(10)
    await pushing.send(channel.owner, thread_of(parent), "two")
    await pushing.expect(channel.follower)
    await pushing.set_level(channel.follower, thread_of(parent), "ALL")
    await pushing.send(channel.owner, thread_of(parent), "three")
    await pushing.expect(channel.follower, ("#trails (Hikers)", "Olga: three"))


async def test_a_thread_in_a_group_loses_its_notifications_with_the_membership(pushing: Pushing) -> None:
    alice, bob, carol, dave = await pushing.create_users("alice", "bob", "carol", "dave")
    group = await pushing.api.create_group(alice, bob, carol, dave)
    parent = await pushing.send(bob, group, "question")
    await pushing.send(bob, parent["id"], "urgent")
    await pushing.work()
    pushing.service.pushes.clear()
    await pushing.send(alice, thread_of(parent), "a secret")
    await pushing.api.remove(alice, group, bob)
    await pushing.expect(bob)


async def test_threads_in_private_conversations_are_like_them(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    parent = await pushing.send(bob, alice, "question")
    await pushing.send(bob, parent["id"], "urgent")
    await pushing.send(alice, thread_of(parent), "answer")
    await pushing.work()
    assert ("Alice", "answer") in pushing.service.texts(bob)
    assert private_id(alice, bob) in thread_of(parent)
