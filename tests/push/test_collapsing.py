"""One notification per conversation: bursts, devices in use, reading, recalls."""

from __future__ import annotations

import pytest

from resolvers.push.worker.intent_batch import MOST_REMOVED
from store.devices.device import PushPlatform
from tests.api.client import private_id
from tests.push.pushing import Pushing
from tests.push.recording import UNREACHABLE


async def test_a_burst_makes_two_notifications(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob, "first")
    await pushing.expect(bob, ("Alice", "first"))
    for number in range(5):
        await pushing.send(alice, bob, f"more {number}")
        await pushing.work()
    await pushing.expect(bob, ("Alice", "first"))
    await pushing.pass_time(6)
    assert pushing.service.texts(bob) == [("Alice", "first"), ("Alice", "more 4")]
    assert len({push.message.tag for push in pushing.service.to(bob)}) == 1
    assert pushing.last(bob).message.badge == 6


async def test_messages_before_the_first_look_are_one_notification(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    for number in range(30):
        await pushing.send(alice, bob, f"number {number}")
    await pushing.expect(bob, ("Alice", "number 29"))


async def test_a_device_in_use_shows_the_message_itself(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    stop_using = await pushing.use_device(bob)
    await pushing.send(alice, bob)
    await pushing.expect(bob)
    await pushing.pass_time(11)
    assert pushing.service.texts(bob) == []
    await stop_using()
    await pushing.pass_time(20)
    assert pushing.service.texts(bob) == []


async def test_a_device_that_is_left_before_the_delay_is_not_enough(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    stop_using = await pushing.use_device(bob)
    await pushing.send(alice, bob)
    await pushing.pass_time(5)
    await stop_using()
    assert pushing.service.texts(bob) == []
    await pushing.pass_time(6)
    assert pushing.service.texts(bob) == [("Alice", "hello")]


async def test_the_delay_is_a_setting(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.set(bob, delay_seconds=30)
    stop_using = await pushing.use_device(bob)
    await pushing.send(alice, bob)
    await pushing.pass_time(20)
    await stop_using()
    await pushing.pass_time(9)
    assert pushing.service.texts(bob) == []
    await pushing.pass_time(2)
    assert pushing.service.texts(bob) == [("Alice", "hello")]


async def test_each_message_waits_for_the_device_on_its_own(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    stop_using = await pushing.use_device(bob)
    await pushing.send(alice, bob, "seen on the desktop")
    await pushing.pass_time(8)
    await pushing.send(alice, bob, "missed")
    await pushing.pass_time(3)
    await stop_using()
    await pushing.pass_time(8)
    assert pushing.service.texts(bob) == [("Alice", "missed")]


async def test_an_invisible_user_with_a_device_in_use_waits_like_others(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.api.data(bob, "mutation { setPresence(status: INVISIBLE) { __typename } }")
    await pushing.use_device(bob)
    await pushing.send(alice, bob)
    await pushing.pass_time(11)
    assert pushing.service.texts(bob) == []


async def test_reading_during_the_delay_cancels(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    stop_using = await pushing.use_device(bob)
    await pushing.send(alice, bob)
    await pushing.work()
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await stop_using()
    await pushing.pass_time(11)
    assert pushing.service.to(bob) == []


@pytest.mark.parametrize("how", ["read", "read many", "answer", "mute", "delete"])
async def test_a_shown_notification_is_removed_quietly(pushing: Pushing, how: str) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    await pushing.send(alice, bob)
    await pushing.work()
    tag = pushing.last(bob).message.tag
    match how:
        case "read":
            await pushing.api.mark_read(bob, conversation)
        case "read many":
            await pushing.api.mark_many_read(bob, conversation)
        case "answer":
            await pushing.send(bob, alice)
        case "mute":
            await pushing.api.mute(bob, conversation)
        case _:
            await pushing.api.delete(bob, conversation)
    await pushing.work()
    (quiet,) = pushing.service.quiet_to(bob)
    assert (quiet.message.tag, quiet.message.badge, quiet.text) == (tag, 0, ("", ""))
    await pushing.pass_time(60)
    assert len(pushing.service.quiet_to(bob)) == 1


async def test_reading_without_a_notification_sends_nothing(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.set_level(bob, (await pushing.send(alice, bob))["conversationId"], "NONE")
    await pushing.work()
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await pushing.work()
    assert pushing.service.to(bob) == []


async def test_notifications_that_are_removed_within_30_seconds_are_removed_together(pushing: Pushing) -> None:
    bob, *others = await pushing.create_users("bob", "alice", "carol", "dave", "erin")
    for other in others:
        await pushing.send(other, bob)
    await pushing.work()
    for other in others[:3]:
        await pushing.api.mark_read(bob, private_id(other, bob))
        await pushing.work()
    assert [push.message.badge for push in pushing.service.quiet_to(bob)] == [3]
    await pushing.pass_time(28)
    assert len(pushing.service.quiet_to(bob)) == 1
    await pushing.pass_time(3)
    assert [push.message.badge for push in pushing.service.quiet_to(bob)] == [3, 1, 1]
    assert len({push.message.tag for push in pushing.service.quiet_to(bob)}) == 3


async def test_many_notifications_are_removed_together_up_to_a_limit(pushing: Pushing) -> None:
    bob, *others = await pushing.create_users("bob", *(f"u{number:02}" for number in range(MOST_REMOVED + 5)))
    await pushing.add_device(bob, "tablet", PushPlatform.APNS)
    for other in others:
        await pushing.send(other, bob)
    await pushing.work()
    await pushing.api.mark_many_read(bob, *(private_id(other, bob) for other in others))
    await pushing.work()
    for service in pushing.services.values():
        assert [push.message.badge for push in service.quiet_to(bob)] == [0] * MOST_REMOVED
    await pushing.pass_time(31)
    await pushing.pass_time(31)
    tags = {push.message.tag for push in pushing.service.shown_to(bob)}
    for service in pushing.services.values():
        assert {push.message.tag for push in service.quiet_to(bob)} == tags
        assert len(service.quiet_to(bob)) == MOST_REMOVED + 5


async def test_reading_a_part_removes_nothing(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    first = await pushing.send(alice, bob, "one")
    await pushing.send(alice, bob, "two")
    await pushing.work()
    await pushing.api.mark_read(bob, private_id(alice, bob), first["seq"])
    await pushing.pass_time(40)
    assert pushing.service.quiet_to(bob) == []
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await pushing.work()
    assert len(pushing.service.quiet_to(bob)) == 1


async def test_a_recalled_message_is_removed_from_the_notification(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    message = await pushing.send(alice, bob, "a mistake")
    await pushing.expect(bob, ("Alice", "a mistake"))
    await pushing.api.recall(alice, message["id"])
    await pushing.work()
    assert len(pushing.service.quiet_to(bob)) == 1
    assert pushing.service.texts(bob) == [("Alice", "a mistake")]


async def test_a_recalled_message_is_replaced_by_the_one_before(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob, "still true")
    message = await pushing.send(alice, bob, "a mistake")
    await pushing.expect(bob, ("Alice", "a mistake"))
    await pushing.api.recall(alice, message["id"])
    await pushing.expect(bob, ("Alice", "a mistake"), ("Alice", "still true"))


async def test_a_message_recalled_before_the_push_is_not_shown(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    message = await pushing.send(alice, bob, "a mistake")
    await pushing.api.recall(alice, message["id"])
    await pushing.work()
    assert pushing.service.to(bob) == []


async def test_an_unreachable_service_gets_the_removal_again(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.send(alice, bob)
    await pushing.work()
    pushing.service.answers.append(UNREACHABLE)
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await pushing.work()
    await pushing.pass_time(31)
    await pushing.pass_time(31)
    assert len(pushing.service.quiet_to(bob)) == 2


@pytest.mark.parametrize("count", [1, 19, 20, 21, 40])
async def test_reading_removes_a_notification_at_any_place_of_the_conversation(pushing: Pushing, count: int) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    for number in range(count):
        await pushing.send(alice, bob, f"number {number + 1}")
    await pushing.expect(bob, ("Alice", f"number {count}"))
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await pushing.work()
    assert len(pushing.service.quiet_to(bob)) == 1


async def test_a_quiet_push_that_failed_does_not_narrow_the_next_notification(pushing: Pushing) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await pushing.add_device(bob, "tablet", PushPlatform.APNS)
    await pushing.send(alice, bob, "one")
    await pushing.work()
    await pushing.api.mark_read(bob, private_id(alice, bob))
    await pushing.send(alice, bob, "two")
    pushing.service.answers.append(UNREACHABLE)
    await pushing.work()
    await pushing.pass_time(60)
    for service in pushing.services.values():
        assert service.texts(bob) == [("Alice", "one"), ("Alice", "two")]
