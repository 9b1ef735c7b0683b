"""Sending: what the sender is answered, and what everybody finds the moment that answer is there."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.api.client import SEND, Api, Json, Subscriber, gather_all, message_input, private_id
from tests.api.session_calls import MESSAGE


def created(events: list[Json]) -> list[int]:
    return [event["message"]["seq"] for event in events if event["__typename"] == "MessageCreated"]


async def test_the_first_message_opens_the_conversation_of_two_people(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    assert await api.session(alice, private_id(alice, bob)) is None
    assert await api.session(bob, private_id(alice, bob)) is None
    payload = await api.send(alice, bob, "hi bob")
    assert payload["message"]["conversationId"] == private_id(alice, bob)
    for user, other in ((alice, bob), (bob, alice)):
        (session,) = await api.sessions(user)
        assert session["conversation"] == {
            "__typename": "PrivateConversation",
            "id": private_id(alice, bob),
            "type": "PRIVATE",
            "title": other,
        }
        assert session["lastMessage"]["content"] == "hi bob"


async def test_a_message_is_answered_whole(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    payload = await api.send(alice, bob, "hi", idempotencyKey="k")
    message = payload["message"]
    assert payload["replayed"] is False
    assert re.fullmatch(r"m_[1-9][0-9]*", message.pop("id"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message.pop("createdAt"))
    assert message == {
        "conversationId": private_id(alice, bob),
        "seq": 1,
        "content": "hi",
        "contentType": "TEXT",
        "state": "NORMAL",
        "mentionsAll": False,
        "editCount": 0,
        "editedAt": None,
        "recalledAt": None,
        "idempotencyKey": "k",
        "sender": {"id": alice, "displayName": alice},
        "mentions": [],
        "replyTo": None,
    }


async def test_what_the_answer_shows_of_a_message_is_what_everybody_reads_later(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    first = await api.send(alice, group, "first")
    sent = (
        await api.send(
            alice, group, "/wave", contentType="BOT_COMMAND", mentions=[bob, carol, bob], mentionAll=True,
            replyToId=first["message"]["id"], idempotencyKey="k",
        )
    )["message"]  # fmt: skip
    assert sent["mentions"] == [{"id": bob}, {"id": carol}]
    assert sent["replyTo"] == {"id": first["message"]["id"], "seq": 1, "content": "first"}
    assert (sent["contentType"], sent["mentionsAll"]) == ("BOT_COMMAND", True)
    assert (await api.history(alice, group))[-1] == sent
    assert (await api.history(bob, group))[-1] == sent | {"idempotencyKey": None}
    query = f"query ($id: ID!) {{ message(id: $id) {{ {MESSAGE} }} }}"
    assert (await api.data(carol, query, id=sent["id"]))["message"] == sent | {"idempotencyKey": None}


async def test_content_comes_back_as_it_went_in(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    contents = [
        " leading and trailing ",
        "lines\r\nand\ttabs\n",
        "שלום مرحبا 你好 🏳️‍🌈 e\u0301",
        '{"json": "\\u0000"} <b>$1</b> %s \\',
        "\u200b\u202eafter invisible ones",
        "\x01\x7f control",
    ]
    for content in contents:
        assert (await api.send(alice, bob, content))["message"]["content"] == content
    assert [m["content"] for m in await api.history(bob, private_id(alice, bob))] == contents


async def test_the_session_in_the_answer_is_the_senders_after_the_message(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for conversation, to in ((private_id(alice, bob), bob), (group, group)):
        for seq in (1, 2):
            session = (await api.send(alice, to))["session"]
            assert session["id"] == f"s_{alice}_{conversation}"
            assert (session["writeSeq"], session["readSeq"], session["deliveredSeq"]) == (seq, seq, seq)
            assert (session["unreadCount"], session["status"]) == (0, "ACTIVE")
            assert session["lastMessage"]["seq"] == seq
            assert session == await api.session(alice, conversation)


@pytest.mark.usefixtures("held_queue")
async def test_recipients_find_the_message_unread_the_moment_it_is_answered(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for count in (1, 2, 3):
        await api.send(alice, group)
        for user in (bob, carol):
            assert await api.unread(user, group) == count
            assert await api.total_unread(user) == count
    await api.send(alice, bob)
    assert await api.total_unread(bob) == 4
    assert await api.total_unread(carol) == 3
    assert await api.total_unread(alice) == 0


async def test_the_total_is_the_sum_over_the_list(api: Api) -> None:
    alice, *others = await api.create_users("alice", "b", "c", "d", "e")
    for count, other in enumerate(others):
        for _ in range(count):
            await api.send(other, alice)
    sessions = await api.sessions(alice)
    assert sorted(session["unreadCount"] for session in sessions) == [1, 2, 3]
    assert await api.total_unread(alice) == 6
    page = await api.data(alice, "{ sessions(first: 1) { totalUnread } syncSessions(first: 1) { totalUnread } }")
    assert page == {"sessions": {"totalUnread": 6}, "syncSessions": {"totalUnread": 6}}


async def test_messages_stand_in_the_order_they_were_answered(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for number in range(1, 13):
        sent = await api.send((alice, bob, carol)[number % 3], group, f"number {number}")
        assert sent["message"]["seq"] == number
    for user in (alice, bob, carol):
        history = await api.history(user, group)
        assert [m["seq"] for m in history] == list(range(1, 13))
        assert [m["content"] for m in history] == [f"number {number}" for number in range(1, 13)]


async def test_fifty_at_once_lose_nothing_and_share_no_place(api: Api) -> None:
    people = await api.create_users("a", "b", "c", "d", "e")
    group = await api.create_group(*people)
    listeners = [await api.listen(user) for user in people]
    sending = [api.send(people[i % 5], group, f"message {i}") for i in range(50)]
    sent = [payload["message"] for payload in await gather_all(*sending)]
    assert sorted(message["seq"] for message in sent) == list(range(1, 51))
    by_seq = sorted(sent, key=lambda message: message["seq"])
    for user in people:
        mine = [message | ({} if message["sender"]["id"] == user else {"idempotencyKey": None}) for message in by_seq]
        assert await api.history(user, group) == mine
    await api.wait_until_idle()
    for user, listener in zip(people, listeners, strict=True):
        session = await api.session(user, group)
        assert session is not None
        own = max(message["seq"] for message in sent if message["sender"]["id"] == user)
        assert (session["writeSeq"], session["readSeq"]) == (50, own)
        assert session["unreadCount"] == await api.total_unread(user) == 50 - own
        await _all_created_once(listener, 50)


async def _all_created_once(listener: Subscriber, count: int) -> None:
    seqs: list[int] = []
    while len(seqs) < count:
        seqs += created([await listener.next()])
    await asyncio.sleep(0.02)
    assert created(listener.pop_events()) == []
    assert sorted(seqs) == list(range(1, count + 1))


async def test_two_people_who_write_to_each_other_first_at_once_share_one_conversation(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = await gather_all(*(api.send(*pair) for pair in ((alice, bob), (bob, alice)) * 5))
    assert sorted(payload["message"]["seq"] for payload in sent) == list(range(1, 11))
    for user in (alice, bob):
        assert len(await api.sessions(user)) == 1
        assert len(await api.history(user, private_id(alice, bob))) == 10


async def test_sending_to_many_people_at_once_keeps_their_conversations_apart(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{i}" for i in range(20)))
    await gather_all(*(api.send(alice, other, f"only for {other}") for other in others))
    for other in others:
        (message,) = await api.history(other, private_id(alice, other))
        assert message["content"] == f"only for {other}"
        assert await api.total_unread(other) == 1
    sessions = await api.sessions(alice)
    assert {session["conversation"]["title"] for session in sessions} == set(others)
    assert len({session["activeTs"] for session in sessions}) == 20


async def test_two_messages_in_one_request_are_sent_in_its_order(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    query = """mutation ($one: SendMessageInput!, $two: SendMessageInput!) {
        one: sendMessage(input: $one) { message { seq content } session { writeSeq } }
        two: sendMessage(input: $two) { message { seq content } session { writeSeq } } }"""
    data = await api.data(alice, query, one=message_input(bob, "one"), two=message_input(private_id(alice, bob), "two"))
    assert data["one"] == {"message": {"seq": 1, "content": "one"}, "session": {"writeSeq": 1}}
    assert data["two"] == {"message": {"seq": 2, "content": "two"}, "session": {"writeSeq": 2}}


async def test_a_message_with_a_variable_for_each_field_left_null_is_an_ordinary_one(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    left_out = dict.fromkeys(
        ("conversationId", "contentType", "mentions", "mentionAll", "replyToId", "idempotencyKey"), None
    )
    payload = (await api.data(alice, SEND, input=message_input(bob) | left_out))["sendMessage"]
    assert payload["message"]["contentType"] == "TEXT"
    assert payload["message"]["mentions"] == []


@pytest.mark.parametrize("mentioned", ["oneself", "the other"])
async def test_people_of_a_private_conversation_can_be_mentioned(api: Api, mentioned: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    who = alice if mentioned == "oneself" else bob
    assert (await api.send(alice, bob, mentions=[who]))["message"]["mentions"] == [{"id": who}]
