"""Sessions of threads: the inbox, mentions in threads that are not followed, and threads that are hidden."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.ids import UserId
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from tests.api.channels.session_calls import LIVE
from tests.api.client import Api, Json, Refusal, Subscriber
from tests.api.sample_channels import create_sample_channels
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.session_calls import ASSIGN, DELETE, MARK_READ, PIN
from tests.api.threads.test_following_threads import follow, start_thread
from tests.api.workspaces.role_calls import overwrite
from tests.checking import find_differences

INBOX = "b_@threads"
FIELDS = ("status", "writeSeq", "readSeq", "unreadCount", "unreadMentionCount", "subBiz", "muteStatus")


@pytest.fixture
async def sample(api: Api) -> SampleGroup:
    return await create_sample_group(api)


async def attention(api: Api, user: str) -> tuple[int, int, int]:
    """Return unread messages, mentions and threads. Fail unless a state that is loaded again has the same."""
    seen = await _attention(api, user)
    await forget(api, user)
    assert await _attention(api, user) == seen
    return seen


async def _attention(api: Api, user: str) -> tuple[int, int, int]:
    found = (await api.data(user, "{ attention { unread mentions threads } }"))["attention"]
    return found["unread"], found["mentions"], found["threads"]


async def forget(api: Api, user: str) -> None:
    """Drop a user's cached state."""
    await api.wait_until_idle()
    store = api.services.app.store
    await store.cache.run([Call("DEL", (store.keys.of_user(UserId(user), name),)) for name in USER_KEYS])


async def show(api: Api, user: str, thread: str) -> tuple[Any, ...]:
    session = await api.own_session(user, thread)
    return tuple(session[name] for name in FIELDS)


async def inbox(api: Api, user: str) -> list[str]:
    """Return the followed threads, newest first. Fail unless the main list has the gateway if there are any."""
    inside = [session["conversation"]["id"] for session in await api.sessions(user, sub_biz="@threads")]
    main = [session["conversation"]["id"] for session in await api.sessions(user)]
    assert (INBOX in main) == bool(inside)
    assert not any(name.startswith("t_") for name in main)
    return inside


async def watch(api: Api, user: str) -> Subscriber:
    """Subscribe to changes of sessions."""
    device = await api.subscribe(user, LIVE)
    assert (await device.next())["reason"] == "CATCH_UP"
    return device


async def read_others(api: Api, user: str, *conversations: str) -> None:
    for conversation in conversations:
        await api.mark_read(user, conversation)


async def test_followed_threads_are_an_inbox_that_is_read_at_once(api: Api, sample: SampleGroup) -> None:
    first = await start_thread(api, sample)
    second = await start_thread(api, sample, (await api.send(sample.owner, sample.group, "another"))["message"]["id"])
    for thread in (first, second):
        await follow(api, sample.owner, thread)
        await api.send(sample.member, thread, "second")
    await read_others(api, sample.owner, sample.group)
    assert await inbox(api, sample.owner) == [second, first]
    assert await attention(api, sample.owner) == (2, 0, 2)
    await api.mute(sample.owner, first)
    assert await attention(api, sample.owner) == (1, 0, 1)
    await api.mute(sample.owner, INBOX)
    assert await attention(api, sample.owner) == (0, 0, 0)
    await api.unmute(sample.owner, INBOX)
    await api.unmute(sample.owner, first)
    assert (await api.mark_read(sample.owner, INBOX))["unreadCount"] == 0
    assert await attention(api, sample.owner) == (0, 0, 0)
    assert await show(api, sample.owner, first) == ("ACTIVE", 2, 2, 0, 0, "@threads", False)


async def test_reading_a_thread_gives_its_writers_no_receipts(api: Api, sample: SampleGroup) -> None:
    thread = await start_thread(api, sample)
    await follow(api, sample.owner, thread)
    await api.send(sample.member, thread, "second")
    device = await api.listen(sample.member)
    await api.ack(sample.owner, thread, 2)
    await api.mark_read(sample.owner, thread)
    await device.expect_no_event()


async def test_a_mention_in_an_unfollowed_thread_counts_until_it_is_read(api: Api, sample: SampleGroup) -> None:
    thread = await start_thread(api, sample)
    await follow(api, sample.admin, thread)
    await follow(api, sample.admin, thread, on=False)
    await read_others(api, sample.admin, sample.group)
    await api.send(sample.member, thread, "for you", mentions=[sample.admin])
    await api.send(sample.member, thread, "for all")
    assert await inbox(api, sample.admin) == []
    assert await attention(api, sample.admin) == (0, 1, 0)
    assert await show(api, sample.admin, thread) == ("INVALID", 3, 1, 2, 1, None, False)
    await api.mute(sample.admin, thread)
    assert await attention(api, sample.admin) == (0, 0, 0)
    assert (await api.unmute(sample.admin, thread))["unreadCount"] == 2
    assert (await api.set_unread(sample.admin, thread))["unreadStatus"]
    assert (await api.ack(sample.admin, thread, 3))["deliveredSeq"] == 3
    read = await api.mark_read(sample.admin, thread)
    assert (read["readSeq"], read["unreadCount"], read["unreadStatus"]) == (3, 0, False)
    assert await attention(api, sample.admin) == (0, 0, 0)


async def test_the_time_of_a_reply_is_not_kept_when_the_following_ends(api: Api) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    group = await api.create_group(anna, ben, cleo)
    parent = (await api.send(anna, group, "parent"))["message"]
    thread = (await api.send(ben, parent["id"], "first"))["message"]["conversationId"]
    await follow(api, anna, thread)
    # The reply is applied while the state of the mentioned user is loaded.
    await api.send(ben, thread, "for you", mentions=[anna])
    await follow(api, anna, thread, on=False)
    await api.wait_until_idle()
    assert not await find_differences(api.services.app.store)


async def test_a_thread_that_is_not_followed_is_not_pinned_deleted_or_labelled(api: Api, sample: SampleGroup) -> None:
    thread = await start_thread(api, sample)
    await follow(api, sample.admin, thread)
    await follow(api, sample.admin, thread, on=False)
    for user in (sample.owner, sample.admin, sample.left, sample.outsider):
        # A load may write the times of recent changes.
        await api.sessions(user)
    before = await api.stored_hashes()
    for user in (sample.owner, sample.admin):
        for query in (PIN, DELETE):
            refusal = await api.expect_refusal(user, query, id=thread)
            assert refusal == Refusal("INVALID_INPUT", "conversationId")
        refusal = await api.expect_refusal(user, ASSIGN, ids=[thread], category="work")
        assert refusal == Refusal("INVALID_INPUT", "conversationIds")
    for user in (sample.left, sample.outsider):
        for query in (PIN, DELETE, MARK_READ):
            assert await api.expect_refusal(user, query, id=thread) == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_hashes() == before


async def test_devices_get_events_of_what_is_followed(api: Api, sample: SampleGroup) -> None:
    thread = await start_thread(api, sample)
    device = await watch(api, sample.owner)
    await follow(api, sample.owner, thread)
    joined = await device.next()
    await follow(api, sample.owner, thread, on=False)
    left = await device.next()
    for event, status, sub_biz in ((joined, "ACTIVE", "@threads"), (left, "INVALID", None)):
        session, gateway = event["sessions"]
        found = (event["reason"], session["status"], session["subBiz"], session["writeSeq"], session["readSeq"])
        assert found == ("MEMBERSHIP", status, sub_biz, 1, 1)
        assert (gateway["conversation"]["id"], gateway["status"]) == (INBOX, status)


async def test_threads_of_a_group_end_when_its_member_leaves_and_come_back(api: Api, sample: SampleGroup) -> None:
    thread = await start_thread(api, sample)
    await follow(api, sample.other_member, thread)
    await api.send(sample.member, thread, "second")
    assert await inbox(api, sample.other_member) == [thread]
    device = await watch(api, sample.other_member)
    await api.leave(sample.other_member, sample.group)
    events = [await device.next(), await device.next()]
    sessions = {session["conversation"]["id"]: session for event in events for session in event["sessions"]}
    assert (sessions[thread]["status"], sessions[INBOX]["status"]) == ("INVALID", "INVALID")
    await api.send(sample.member, thread, "not for you", mentions=[sample.owner])
    assert await inbox(api, sample.other_member) == []
    assert (await attention(api, sample.other_member))[1:] == (0, 0)
    assert await show(api, sample.other_member, thread) == ("INVALID", 1, 1, 0, 0, "@threads", False)
    await api.invite(sample.owner, sample.group, sample.other_member)
    await api.wait_until_idle()
    assert await inbox(api, sample.other_member) == [thread]
    # Joining reads.
    assert (await attention(api, sample.other_member))[2] == 0
    await api.send(sample.member, thread, "for you again")
    assert (await attention(api, sample.other_member))[2] == 1


async def test_threads_of_a_channel_end_with_the_right_to_see_it(api: Api) -> None:
    sample = await create_sample_channels(api)
    parent: Json = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = (await api.send(sample.member, parent["id"], "reply"))["message"]["conversationId"]
    await follow(api, sample.other, thread)
    await api.send(sample.member, thread, "second", mentions=[sample.other])
    assert await inbox(api, sample.other) == [thread]
    assert await attention(api, sample.other) == (1, 1, 1)
    device = await watch(api, sample.other)
    await overwrite(api, sample.owner, channel=sample.general, user=sample.other, deny=["VIEW_CHANNEL"])
    event = await device.next()
    assert [session["status"] for session in event["sessions"]] == ["INVALID", "INVALID"]
    assert await inbox(api, sample.other) == []
    assert await attention(api, sample.other) == (0, 0, 0)
    before = await api.stored_hashes()
    assert await api.expect_refusal(sample.other, MARK_READ, id=thread) == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_hashes() == before
