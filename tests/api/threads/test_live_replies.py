"""Live replies: followers get them on their own clocks, and those who look at the thread in channelEvents."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.live.live_stream import CaughtUp
from resolvers.live.message_events import message_events
from store.base.ids import UserId
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from store.workspaces.policy_versions import PolicyVersions
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.mailboxes import QueueBudget
from tests.api.channels.channel_subscriber import refused, take, tell
from tests.api.client import SYNC, Api
from tests.api.events import current_cursor
from tests.api.group_calls import REMOVE
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.calls import thread_of
from tests.api.threads.live_calls import (
    EVENTS,
    OUTSIDE_CHANNELS,
    PLACES,
    follow,
    look,
    make_thread,
    next_of,
    shown,
    until,
)

MESSAGES = ("MessageCreated", "MessageUpdated", "MessageRecalled")
REPLY = [("CREATED", 2, "reply"), ("UPDATED", 2, "edited"), ("RECALLED", 2, None)]


@pytest.mark.parametrize("kind", PLACES)
async def test_replies_reach_followers_and_those_who_look(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    await follow(api, place.first, place.id)
    await api.wait_until_idle()
    since = await current_cursor(api, place.first)
    follower = await other_api.listen(place.first, EVENTS)
    only_here = await other_api.listen(place.first, EVENTS, id=place.id)
    looking = await look(other_api, place.third, place.id)
    reply = (await api.send(place.second, place.id, "reply"))["message"]
    assert shown(await next_of(follower, *MESSAGES)) == shown(await next_of(only_here, *MESSAGES)) == REPLY[0]
    live = [await looking.next()]
    await api.edit(place.second, reply["id"], "edited")
    assert shown(await next_of(follower, *MESSAGES)) == REPLY[1]
    live.append(await looking.next())
    await api.recall(place.second, reply["id"])
    assert shown(await next_of(follower, *MESSAGES)) == REPLY[2]
    live.append(await looking.next())
    assert list(map(shown, live)) == REPLY
    assert {event["conversationId"] for event in live} == {place.id}
    await api.wait_until_idle()
    missed = await until(await api.subscribe(place.first, EVENTS, since=since), "CaughtUp")
    assert missed[-1]["reset"] is False
    assert [shown(event) for event in missed if event["__typename"] in MESSAGES] == [("CREATED", 2, None), REPLY[2]]
    resumed = await until(await look(api, place.third, (place.id, live[1]["rev"])), "ChannelCaughtUp")
    assert [shown(event) for event in resumed[:-1]] == [REPLY[2]] and resumed[-1]["reset"] is False


@pytest.mark.parametrize("kind", OUTSIDE_CHANNELS)
async def test_users_who_look_and_do_not_follow_get_nothing_in_message_events(api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    user = place.third
    messages, looking = await api.listen(user, EVENTS), await look(api, user, place.id)
    await api.send(place.second, place.id, "reply")
    assert shown(await looking.next()) == ("CREATED", 2, "reply")
    assert {event["__typename"] for event in messages.pop_events()} <= {"ThreadChanged"}
    await follow(api, user, place.id)
    await api.send(place.second, place.id, "another")
    assert shown(await looking.next()) == ("CREATED", 3, "another")
    assert shown(await next_of(messages, *MESSAGES)) == ("CREATED", 3, "another")
    await looking.expect_no_event()


async def test_a_reply_that_is_delivered_again_is_shown_once(api: Api) -> None:
    place = await make_thread(api, "group")
    looking = await look(api, place.third, place.id)
    await api.send(place.second, place.id, "reply")
    app = api.services.app
    (message,) = (await app.store.messages.find_many([(place.id, 2)])).values()
    await api.wait_until_idle()
    await app.delivery.deliver_stored(message)
    await api.wait_until_idle()
    assert shown(await looking.next()) == ("CREATED", 2, "reply")
    await looking.expect_no_event()


async def test_a_mention_reaches_a_user_who_has_stopped_following(api: Api, other_api: Api) -> None:
    place = await make_thread(api, "group")
    for on in (True, False):
        await follow(api, place.third, place.id, on=on)
    device = await other_api.listen(place.third, EVENTS)
    await api.send(place.second, place.id, "you", mentions=[place.third])
    assert shown(await next_of(device, *MESSAGES, "Mentioned")) == ("Mentioned", 2, "you")
    assert place.third != place.first


async def test_a_reply_in_a_channel_is_no_activity_of_the_channel(api: Api) -> None:
    place = await make_thread(api, "channel")
    looking = await look(api, place.third, place.conversation, place.id)
    await api.send(place.second, place.id, "reply")
    assert shown(await next_of(looking, "ChannelMessage")) == ("CREATED", 2, "reply")
    store = api.services.app.store
    (reading,) = await store.clocks.find([f"w_{place.conversation[2:].partition('.')[0]}"])
    assert reading is not None
    changes = await store.clocks.read_changes({f"w_{place.conversation[2:].partition('.')[0]}": 0}, UserId("nobody"))
    (found,) = changes.values()
    assert not [name for name in found.recent if name.startswith("t_")]


@pytest.mark.parametrize("follows", [True, False])
async def test_a_former_member_sees_nothing_more_of_a_thread(api: Api, other_api: Api, follows: bool) -> None:
    place = await make_thread(api, "group")
    await follow(api, place.third, place.id, on=follows)
    follower, looking = await other_api.listen(place.third, EVENTS), await look(other_api, place.third, place.id)
    await api.data(place.first, REMOVE, id=place.conversation, user=place.third)
    assert (await looking.next()) == {"__typename": "AccessEnded", "conversationId": place.id}
    await api.send(place.second, place.id, "secret", mentions=[place.first])
    await api.wait_until_idle()
    await looking.expect_no_event()
    assert not [e for e in follower.pop_events() if e.get("message", {}).get("conversationId") == place.id]
    assert await refused(api, place.third, place.id) == ("NOT_FOUND", "channels")


async def test_an_outsider_cannot_look_at_a_thread(api: Api) -> None:
    (stranger,) = await api.create_users("stranger")
    for kind in ("private", "group", "channel"):
        place = await make_thread(api, kind)
        assert await refused(api, stranger, place.id) == ("NOT_FOUND", "channels")
        unknown = thread_of({"seq": 99, "conversationId": place.conversation})
        assert await refused(api, place.first, unknown) == ("NOT_FOUND", "channels")


async def test_the_access_to_a_thread_ends_with_that_to_its_channel(api: Api, other_api: Api) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    await api.send(sample.other, parent["id"], "reply")
    thread = thread_of(parent)
    looking = await look(other_api, sample.other, thread)
    follower = await other_api.listen(sample.other, EVENTS)
    await sample.overwrite(sample.general, sample.other, Permission.VIEW_CHANNEL)
    await tell(api, sample, sample.other)
    await api.send(sample.member, thread, "secret")
    assert (await looking.next()) == {"__typename": "AccessEnded", "conversationId": thread}
    await looking.expect_no_event()
    assert not [event for event in follower.pop_events() if "message" in event]


async def test_a_reply_waits_for_no_rights_that_have_ended(api: Api, other_api: Api) -> None:
    """The reader's server has no subscription to the workspace, so nobody asks it about the change."""
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    await api.send(sample.other, parent["id"], "reply")
    since = await current_cursor(other_api, sample.other)
    for _ in range(2):
        await api.send(sample.member, thread_of(parent), "more")
    stream = await message_events(other_api.services.app, UserId(sample.other), since, None, QueueBudget())
    assert isinstance((await take(stream)).payload, MessageCreated)
    await sample.overwrite(sample.general, sample.other, Permission.VIEW_CHANNEL)
    assert isinstance((await take(stream)).payload, CaughtUp)
    stream.close()


async def test_followers_on_a_server_share_the_read_of_the_present_rights(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = thread_of(parent)
    users = [sample.owner, sample.admin, sample.moderator, sample.other]
    for user in users:
        await api.send(user, parent["id"], "reply")
    await api.wait_until_idle()
    devices = [await other_api.listen(user, EVENTS) for user in users for _ in range(8)]
    answer = PolicyVersions._answer
    reads: list[int] = []

    async def count(self: PolicyVersions, workspace: Any, calls: Any) -> None:
        reads.append(len(calls))
        await answer(self, workspace, calls)

    monkeypatch.setattr(PolicyVersions, "_answer", count)
    await api.send(sample.member, thread, "to all")
    for device in devices:
        assert shown(await next_of(device, "MessageCreated"))[2] == "to all"
    assert sum(reads) >= len(devices) > 4 * len(reads)


@pytest.mark.parametrize("kind", PLACES)
async def test_a_position_from_before_a_loss_of_redis_is_reset(api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    looking = await look(api, place.third, place.id)
    await api.send(place.second, place.id, "reply")
    rev = (await looking.next())["rev"]
    since = (await api.data(place.second, SYNC))["syncSessions"]["cursor"]
    await looking.stop()
    await api.wait_until_idle()
    await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    await api.send(place.second, place.id, "after it")
    resumed = await until(await look(api, place.third, (place.id, rev)), "ChannelCaughtUp")
    assert [event["reset"] for event in resumed] == [True]
    missed = await until(await api.subscribe(place.second, EVENTS, since=since), "CaughtUp")
    assert [event["reset"] for event in missed] == [True]
