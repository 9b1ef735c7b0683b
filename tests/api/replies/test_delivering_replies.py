"""Replies reach the sessions of followers, of mentioned users, and of their senders."""

from __future__ import annotations

import pytest

from tests.api.client import Api, gather_all
from tests.api.replies.thread_of_message import ThreadOfMessage, unread
from tests.api.requests.test_budgets import Meter

EVENTS = """subscription ($since: Cursor) { messageEvents(since: $since) { __typename
    ... on Mentioned { message { conversationId seq } } ... on MessageCreated { message { conversationId seq } }
    ... on CaughtUp { cursor reset } } }"""


async def test_a_reply_costs_as_much_as_a_message_to_a_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    thread = ThreadOfMessage(await api.send(alice, group))
    await thread.reply(api, bob)
    await thread.reply(api, carol)
    for user in (alice, bob, carol):
        await api.sessions(user)
    places = [await thread.reserve(api, bob) for _ in range(10)]

    async def send() -> None:
        await api.services.app.delivery.send(places.pop(0))

    # The place is the other round trip to Redis.
    await Meter(api).expect("reply of a known person", send, 1, 1)

    async def place() -> None:
        parent = parents[thread.parent_id]
        await api.services.app.store.reply_places.reserve(messages.pop(0), parent)

    store = api.services.app.store
    parents = await store.messages.find_by_ids([thread.parent_id])
    messages = [place._replace(id=store.ids.next()) for place in [(await thread.reply(api, bob))] * 10]
    await Meter(api).expect("place of a reply", place, 0, 1)


async def test_followers_count_replies_as_unread_and_others_have_no_session(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    thread = ThreadOfMessage(await api.send(alice, group))
    store = api.services.app.store
    for user in (alice, bob, carol, dave):
        await api.sessions(user)
    await thread.reply(api, bob)
    await thread.reply(api, carol, [dave])
    await thread.reply(api, carol)
    assert [await unread(store, user, thread.id) for user in (alice, bob, carol, dave)] == [None, 2, 0, 2]
    (parent,) = (await store.messages.find_by_ids([thread.parent_id])).values()
    head = await store.conversations.find(parent.conversation)
    assert parent.has_thread and head is not None and head.newest is not None and head.newest.has_thread
    head = await thread.head(api)
    assert (head.reply_count, head.member_count) == (3, 3)
    assert head.thread is not None and head.thread.participants == (carol, bob)


async def test_first_replies_on_two_servers_make_one_thread(api: Api, other_api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    thread = ThreadOfMessage(await api.send(alice, group))
    replies = await gather_all(
        *(thread.reply(server, user) for user in (bob, carol, dave) for server in (api, other_api))
    )
    assert sorted(reply.seq for reply in replies) == [1, 2, 3, 4, 5, 6]
    head = await thread.head(other_api)
    assert head.thread is not None and (head.reply_count, head.member_count) == (6, 3)
    assert head.thread.participant_count == 3
    assert await thread.followers(api) == sorted([bob, carol, dave])


async def test_a_member_who_left_gets_no_further_replies(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    thread = ThreadOfMessage(await api.send(alice, group))
    await thread.reply(api, bob)
    await thread.reply(api, carol)
    await api.data(carol, "mutation ($id: ID!) { leaveGroup(groupId: $id) }", id=group)
    place = await thread.reserve(api, bob)
    assert await api.services.app.store.thread_recipients.find_followers(place) == [bob]
    await api.services.app.delivery.send(place)
    assert (await thread.head(api)).member_count == 2


async def test_a_sender_who_has_stopped_following_reads_with_a_reply(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    thread = ThreadOfMessage(await api.send(alice, group))
    await thread.reply(api, bob)
    await thread.unfollow(api, bob)
    await thread.reply(api, carol, [bob])
    row = thread.row(api, bob)
    assert row is not None and "fw" not in row and (row["r"], row["ms"]) == (1, [2])
    await thread.reply(api, bob)
    row = thread.row(api, bob)
    assert row is not None and (row["r"], row["rn"], row["ms"]) == (3, 3, [])
    assert await thread.followers(api) == [carol]


async def test_followers_get_the_reply_and_others_that_it_names_a_mention(api: Api, other_api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    thread = ThreadOfMessage(await api.send(alice, group))
    for user in (bob, carol):
        await thread.reply(api, user)
    await thread.unfollow(api, bob)
    for user in (alice, bob, carol, dave):
        await api.sessions(user)
    devices = {user: await other_api.listen(user, EVENTS) for user in (alice, bob, carol, dave)}
    sent = await thread.reply(api, carol, [bob, dave])
    place = {"message": {"conversationId": thread.id, "seq": sent.seq}}
    assert await devices[bob].next() == {"__typename": "Mentioned"} | place
    # She follows from this reply on.
    assert await devices[dave].next() == {"__typename": "MessageCreated"} | place
    assert await devices[carol].next() == {"__typename": "MessageCreated"} | place
    await thread.reply(api, bob)
    assert (await devices[dave].next())["message"]["seq"] == sent.seq + 1
    await devices[alice].expect_no_event()
    await devices[bob].expect_no_event()


async def test_followers_after_the_first_recipients_get_the_reply_too(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subscriptions.delivery.fanout_stage.FIRST_RECIPIENTS", 2)
    monkeypatch.setattr("subscriptions.delivery.large_group_stage._SLICE", 2)
    users = await api.create_users(*(f"u{number}" for number in range(6)))
    thread = ThreadOfMessage(await api.send(users[0], await api.create_group(*users)))
    await thread.reply(api, users[1], users[2:])
    await thread.unfollow(api, users[5])
    for user in users:
        await api.sessions(user)
    await thread.reply(api, users[1], [users[5]])
    await thread.reply(api, users[2])
    await api.wait_until_idle()
    store = api.services.app.store
    assert [await unread(store, user, thread.id) for user in users[:5]] == [None, 1, 0, 3, 3]
    row = thread.row(api, users[5])
    assert row is not None and row["ms"] == [2]
