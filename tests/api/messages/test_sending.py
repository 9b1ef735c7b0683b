"""sendMessage: the answer to the sender, and what everybody reads once it has arrived."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.api.client import SEND, Api, Json, Subscriber, gather_all, message_input, private_id
from tests.api.session_calls import MESSAGE


def created_seqs(events: list[Json]) -> list[int]:
    return [event["message"]["seq"] for event in events if event["__typename"] == "MessageCreated"]


async def test_the_first_message_creates_the_conversation(api: Api) -> None:
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


async def test_the_answer_has_all_fields_of_the_message(api: Api) -> None:
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
        "metadata": None,
        "contentType": "TEXT",
        "state": "NORMAL",
        "mentionsAll": False,
        "editCount": 0,
        "editedAt": None,
        "recalledAt": None,
        "idempotencyKey": "k",
        "sender": {"id": alice, "displayName": alice},
        "authorName": alice,
        "authorAvatarUrl": None,
        "recalledBy": None,
        "systemEvent": None,
        "mentions": [],
        "replyTo": None,
    }


async def test_the_answer_equals_the_message_that_everybody_reads_later(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    first = await api.send(alice, group, "first")
    payloads = (
        await api.send(
            alice, group, "/wave", contentType="BOT_COMMAND", mentions=[bob, carol, bob], mentionAll=True,
            replyToId=first["message"]["id"], idempotencyKey="k",
        )
    )["message"]  # fmt: skip
    assert payloads["mentions"] == [{"id": bob}, {"id": carol}]
    assert payloads["replyTo"] == {"id": first["message"]["id"], "seq": 1, "content": "first"}
    assert (payloads["contentType"], payloads["mentionsAll"]) == ("BOT_COMMAND", True)
    assert (await api.history(alice, group))[-1] == payloads
    assert (await api.history(bob, group))[-1] == payloads | {"idempotencyKey": None}
    query = f"query ($id: ID!) {{ message(id: $id) {{ {MESSAGE} }} }}"
    assert (await api.data(carol, query, id=payloads["id"]))["message"] == payloads | {"idempotencyKey": None}


async def test_content_is_returned_unchanged(api: Api) -> None:
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


async def test_the_session_in_the_answer_includes_the_message(api: Api) -> None:
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
async def test_recipients_see_the_message_as_soon_as_it_is_answered(api: Api) -> None:
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


async def test_the_total_is_the_sum_of_the_unread_counts(api: Api) -> None:
    alice, *others = await api.create_users("alice", "b", "c", "d", "e")
    for count, other in enumerate(others):
        for _ in range(count):
            await api.send(other, alice)
    sessions = await api.sessions(alice)
    assert sorted(session["unreadCount"] for session in sessions) == [1, 2, 3]
    assert await api.total_unread(alice) == 6
    page = await api.data(alice, "{ sessions(first: 1) { totalUnread } syncSessions(first: 1) { totalUnread } }")
    assert page == {"sessions": {"totalUnread": 6}, "syncSessions": {"totalUnread": 6}}


async def test_messages_are_ordered_as_they_were_answered(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for number in range(1, 13):
        payloads = await api.send((alice, bob, carol)[number % 3], group, f"number {number}")
        assert payloads["message"]["seq"] == number
    for user in (alice, bob, carol):
        history = await api.history(user, group)
        assert [m["seq"] for m in history] == list(range(1, 13))
        assert [m["content"] for m in history] == [f"number {number}" for number in range(1, 13)]


async def test_concurrent_messages_are_all_stored_with_unique_seqs(api: Api) -> None:
    users = await api.create_users("a", "b", "c", "d", "e")
    group = await api.create_group(*users)
    listeners = [await api.listen(user) for user in users]
    sends = [api.send(users[i % 5], group, f"message {i}") for i in range(50)]
    payloads = [payload["message"] for payload in await gather_all(*sends)]
    assert sorted(message["seq"] for message in payloads) == list(range(1, 51))
    by_seq = sorted(payloads, key=lambda message: message["seq"])
    for user in users:
        expected = [
            message | ({} if message["sender"]["id"] == user else {"idempotencyKey": None}) for message in by_seq
        ]
        assert await api.history(user, group) == expected
    await api.wait_until_idle()
    for user, listener in zip(users, listeners, strict=True):
        session = await api.session(user, group)
        assert session is not None
        last_own_seq = max(message["seq"] for message in payloads if message["sender"]["id"] == user)
        assert (session["writeSeq"], session["readSeq"]) == (50, last_own_seq)
        assert session["unreadCount"] == await api.total_unread(user) == 50 - last_own_seq
        await expect_each_message_once(listener, 50)


async def expect_each_message_once(listener: Subscriber, count: int) -> None:
    seqs: list[int] = []
    while len(seqs) < count:
        seqs += created_seqs([await listener.next()])
    await asyncio.sleep(0.02)
    assert created_seqs(listener.pop_events()) == []
    assert sorted(seqs) == list(range(1, count + 1))


async def test_concurrent_first_messages_share_one_conversation(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    payloads = await gather_all(*(api.send(*pair) for pair in ((alice, bob), (bob, alice)) * 5))
    assert sorted(payload["message"]["seq"] for payload in payloads) == list(range(1, 11))
    for user in (alice, bob):
        assert len(await api.sessions(user)) == 1
        assert len(await api.history(user, private_id(alice, bob))) == 10


async def test_concurrent_messages_to_many_users_stay_separate(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{i}" for i in range(20)))
    await gather_all(*(api.send(alice, other, f"only for {other}") for other in others))
    for other in others:
        (message,) = await api.history(other, private_id(alice, other))
        assert message["content"] == f"only for {other}"
        assert await api.total_unread(other) == 1
    sessions = await api.sessions(alice)
    assert {session["conversation"]["title"] for session in sessions} == set(others)
    assert len({session["activeTs"] for session in sessions}) == 20


async def test_two_messages_in_one_request_are_sent_in_order(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    query = """mutation ($one: SendMessageInput!, $two: SendMessageInput!) {
        one: sendMessage(input: $one) { message { seq content } session { writeSeq } }
        two: sendMessage(input: $two) { message { seq content } session { writeSeq } } }"""
    data = await api.data(alice, query, one=message_input(bob, "one"), two=message_input(private_id(alice, bob), "two"))
    assert data["one"] == {"message": {"seq": 1, "content": "one"}, "session": {"writeSeq": 1}}
    assert data["two"] == {"message": {"seq": 2, "content": "two"}, "session": {"writeSeq": 2}}


async def test_null_for_every_optional_field_sends_an_ordinary_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    nulls = dict.fromkeys(
        ("conversationId", "contentType", "mentions", "mentionAll", "replyToId", "idempotencyKey"), None
    )
    payload = (await api.data(alice, SEND, input=message_input(bob) | nulls))["sendMessage"]
    assert payload["message"]["contentType"] == "TEXT"
    assert payload["message"]["mentions"] == []


@pytest.mark.parametrize("mentioned", ["the sender", "the peer"])
async def test_both_users_of_a_private_conversation_can_be_mentioned(api: Api, mentioned: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    mentioned_user = alice if mentioned == "the sender" else bob
    assert (await api.send(alice, bob, mentions=[mentioned_user]))["message"]["mentions"] == [{"id": mentioned_user}]
