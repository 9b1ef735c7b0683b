"""Which messages notify which users, at the API."""

from __future__ import annotations

import pytest

from resolvers.push.push_tags import push_tag
from store.base.ids import ConversationId
from store.devices.device import PushPlatform
from store.sessions.fields import NotificationLevel
from tests.api.blocks.calls import block, unblock
from tests.api.client import private_id
from tests.api.conftest import Deployments
from tests.api.threads.calls import thread_of
from tests.push.pushing import Pushing

DAY_MINUTES = 24 * 60


async def test_a_private_message_notifies_the_other_person(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob, "see you at 8")
    await pushing.expect(bob, ("Alice", "see you at 8"))
    push = pushing.last(bob)
    conversation = private_id(alice, bob)
    assert push.message.conversation == conversation
    assert push.message.tag == push_tag(ConversationId(conversation)) and len(push.message.tag) == 32
    assert push.message.badge == 1
    assert pushing.service.to(alice) == []


async def test_a_group_notifies_its_members_with_the_name_of_the_author(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol, name="Climbers")
    await pushing.send(bob, group, "rope?")
    await pushing.expect(alice, ("Climbers", "Bob: rope?"))
    assert pushing.service.texts(carol) == [("Climbers", "Bob: rope?")]
    assert pushing.service.to(bob) == []


async def test_users_without_devices_get_nothing(pushing: Pushing) -> None:
    alice, bob = await pushing.api.create_users("alice", "bob")
    await pushing.send(alice, bob)
    await pushing.work()
    assert pushing.service.pushes == []


async def test_system_messages_notify_nobody(pushing: Pushing) -> None:
    alice, bob, carol, dave = await pushing.create_users("alice", "bob", "carol", "dave")
    group = await pushing.api.create_group(alice, bob, carol)
    await pushing.api.invite(alice, group, dave)
    await pushing.work()
    assert pushing.service.pushes == []


async def test_all_devices_of_a_user_are_notified_by_their_services(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.add_device(bob, "tablet", PushPlatform.APNS)
    await pushing.send(alice, bob)
    await pushing.work()
    assert [push.token for push in pushing.service.to(bob)] == [f"{bob}:phone"]
    assert [push.token for push in pushing.services[PushPlatform.APNS].to(bob)] == [f"{bob}:tablet"]


async def test_a_message_that_was_read_at_once_notifies_nobody(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob)
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await pushing.expect(bob)


async def test_a_muted_conversation_notifies_nobody(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob, "first")
    await pushing.expect(bob, ("Alice", "first"))
    await pushing.api.mute(bob, private_id(alice, bob))
    await pushing.send(alice, bob, "second")
    await pushing.pass_time(10)
    assert pushing.service.texts(bob) == [("Alice", "first")]


@pytest.mark.parametrize("is_cached", [True, False])
async def test_a_muted_sub_biz_notifies_nobody(pushing: Pushing, deployments: Deployments, is_cached: bool) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob, "first", subBiz="shop")
    await pushing.expect(bob, ("Alice", "first"))
    await pushing.api.mute(bob, "b_shop")
    await pushing.send(alice, bob, "second", subBiz="shop")
    await pushing.api.wait_until_idle()
    if not is_cached:
        deployments.evict_user_state("main", bob)
    await pushing.pass_time(10)
    assert pushing.service.texts(bob) == [("Alice", "first")]


async def test_muted_threads_notify_nobody(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    parent = await pushing.send(bob, alice, "question")
    await pushing.send(bob, parent["id"], "urgent")
    await pushing.api.mute(bob, "b_@threads")
    await pushing.send(alice, thread_of(parent), "answer")
    await pushing.expect(bob)


@pytest.mark.parametrize("level", ["user", "conversation"])
@pytest.mark.parametrize(
    ("value", "notifies"), [("ALL", (True, True)), ("MENTIONS", (False, True)), ("NONE", (False, False))]
)
async def test_the_level_decides_which_messages_notify(
    pushing: Pushing, level: str, value: str, notifies: tuple[bool, bool]
) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol)
    if level == "user":
        await pushing.set(bob, level=NotificationLevel(value))
    else:
        await pushing.set_level(bob, group, value)
    await pushing.send(alice, group, "plain")
    await pushing.work()
    assert bool(pushing.service.texts(bob)) is notifies[0]
    pushing.service.pushes.clear()
    await pushing.pass_time(10)
    await pushing.send(alice, group, "named", mentions=[bob])
    await pushing.work()
    assert bool(pushing.service.texts(bob)) is notifies[1]


async def test_the_level_of_a_conversation_goes_before_that_of_the_user(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol)
    await pushing.set(bob, level=NotificationLevel.NONE)
    await pushing.set_level(bob, group, "ALL")
    await pushing.send(alice, group)
    await pushing.expect(bob, ("Group", "Alice: hello"))


async def test_a_suppressed_mention_of_everybody_is_no_mention(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol)
    await pushing.set_level(bob, group, "MENTIONS", True)
    await pushing.set_level(carol, group, "MENTIONS", False)
    await pushing.send(alice, group, "everybody", mentionAll=True)
    await pushing.expect(bob)
    assert pushing.service.texts(carol) == [("Group", "Alice: everybody")]


async def test_a_keyword_notifies_like_a_mention(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol)
    await pushing.set(bob, level=NotificationLevel.MENTIONS, keywords=("Zürich",))
    await pushing.send(alice, group, "zurichsee")
    await pushing.expect(bob)
    await pushing.send(alice, group, "to ZURICH!")
    await pushing.expect(bob, ("Group", "Alice: to ZURICH!"))


async def test_do_not_disturb_suppresses_notifications_in_the_zone_of_the_user(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    minute_in_tokyo = (pushing.clock.ms // 60_000 + 9 * 60) % DAY_MINUTES
    begin, end = (minute_in_tokyo - 5) % DAY_MINUTES, (minute_in_tokyo + 5) % DAY_MINUTES
    await pushing.set(bob, dnd_from=begin, dnd_to=end, time_zone="Asia/Tokyo")
    await pushing.send(alice, bob)
    await pushing.expect(bob)
    await pushing.set(bob, time_zone="UTC")
    await pushing.send(alice, bob, "again")
    await pushing.expect(bob, ("Alice", "again"))


async def test_the_presence_dnd_suppresses_notifications(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.api.data(bob, "mutation { setPresence(status: DND) { __typename } }")
    await pushing.send(alice, bob)
    await pushing.expect(bob)


async def test_the_previews_of_a_user_decide_whether_the_text_is_shown(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol, name="Climbers")
    await pushing.set(bob, shows_preview=False)
    await pushing.add_device(bob, "tablet", locale="de-AT")
    await pushing.send(alice, group, "a secret")
    await pushing.work()
    texts = {push.token: push.text for push in pushing.service.to(bob)}
    assert texts == {
        f"{bob}:phone": ("Climbers", "Alice: New message"),
        f"{bob}:tablet": ("Climbers", "Alice: Neue Nachricht"),
    }


async def test_the_badge_counts_unread_messages_and_mentions(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol)
    await pushing.send(alice, bob)
    await pushing.send(alice, group, "named", mentions=[bob])
    await pushing.work()
    assert {push.message.badge for push in pushing.service.to(bob)} == {3}


async def test_messages_of_blocked_senders_notify_nobody(pushing: Pushing) -> None:
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    group = await pushing.api.create_group(alice, bob, carol, name="Climbers")
    await block(pushing.api, alice, bob)
    await pushing.send(bob, group, "rope?", mentions=[alice])
    await pushing.expect(alice)
    assert pushing.service.texts(carol) == [("Climbers", "Bob: rope?")]
    await pushing.send(carol, group, "here")
    await pushing.expect(alice, ("Climbers", "Carol: here"))
    await unblock(pushing.api, alice, bob)
    await pushing.send(bob, group, "thanks")
    await pushing.pass_time(60)
    assert pushing.service.texts(alice)[-1] == ("Climbers", "Bob: thanks")


async def test_a_block_before_the_push_is_due_prevents_it(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(bob, alice, "one")
    await block(pushing.api, alice, bob)
    await pushing.expect(alice)
