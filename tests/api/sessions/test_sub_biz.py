"""Conversations inside a subBiz: ids, lists, and isolation from conversations outside."""

from __future__ import annotations

import secrets

import pytest

from subscriptions.transport.engine import RequestRefused
from tests.api.client import (
    CREATE_GROUP,
    INVITE,
    LIVE_MESSAGES,
    SEND,
    SYNC,
    Api,
    Json,
    Refusal,
    parse_refusal,
    private_id,
)
from tests.api.conftest import Deployments
from tests.api.session_calls import ASSIGN, DELETE, MARK_READ, MUTE, PIN, SESSION, SESSIONS, SET_UNREAD

VALID_NAMES = ["shop", "a", "-", "0", "x" * 32, "a-b-0"]
INVALID_NAMES = ["", " ", "Shop", "a_b", "a~b", "x" * 33, "é", "a b", "a\n", "\x00", "\ud800", "b_shop"]


@pytest.mark.parametrize("name", VALID_NAMES)
async def test_the_first_message_creates_the_conversation_in_the_sub_biz(api: Api, name: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    payload = await api.send(alice, bob, subBiz=name)
    assert payload["message"]["conversationId"] == private_id(alice, bob, name)
    assert payload["message"]["seq"] == 1
    for user, other in ((alice, bob), (bob, alice)):
        session = await api.own_session(user, private_id(alice, bob, name))
        assert session["id"] == f"s_{user}_{private_id(alice, bob, name)}"
        assert session["subBiz"] == name
        assert session["conversation"] == {
            "__typename": "PrivateConversation",
            "id": private_id(alice, bob, name),
            "type": "PRIVATE",
            "title": other,
        }
    assert payload["session"] == await api.session(alice, private_id(alice, bob, name))
    assert await api.unread(bob, private_id(alice, bob, name)) == 1


async def test_two_users_have_separate_conversations_in_each_sub_biz(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message_counts = {None: 3, "shop": 2, "help": 1}
    for name, count in message_counts.items():
        for number in range(count):
            await api.send(alice, bob, f"{name} {number}", subBiz=name)
    for name, count in message_counts.items():
        conversation = private_id(alice, bob, name)
        session = await api.own_session(bob, conversation)
        assert (session["subBiz"], session["writeSeq"], session["unreadCount"]) == (name, count, count)
        assert [m["content"] for m in await api.history(bob, conversation)] == [f"{name} {n}" for n in range(count)]
    await api.mark_read(bob, private_id(alice, bob, "shop"))
    await api.wait_until_idle()
    assert [await api.unread(bob, private_id(alice, bob, name)) for name in message_counts] == [3, 0, 1]
    peers = [(await api.own_session(alice, private_id(alice, bob, name)))["peerReadSeq"] for name in message_counts]
    assert peers == [0, 2, 0]


async def test_a_conversation_id_does_not_create_the_conversation(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob, "shop")
    stored = await api.stored_hashes()
    for conversation_id in (conversation, private_id(alice, bob)):
        message = {"conversationId": conversation_id, "content": "x"}
        assert await api.expect_refusal(alice, SEND, input=message) == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_hashes() == stored
    await api.send(alice, bob, subBiz="shop")
    assert (await api.send(bob, conversation))["message"]["seq"] == 2
    message = {"conversationId": private_id(alice, bob), "content": "x"}
    assert await api.expect_refusal(alice, SEND, input=message) == Refusal("NOT_FOUND", "conversationId")


@pytest.mark.parametrize("name", INVALID_NAMES, ids=ascii)
async def test_an_invalid_name_is_refused(api: Api, name: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    stored = await api.stored_hashes()
    assert await api.expect_send_refusal(alice, bob, subBiz=name) == Refusal("INVALID_INPUT", "subBiz")
    group_input = {"name": "x", "memberIds": [bob, carol], "subBiz": name}
    assert await api.expect_refusal(alice, CREATE_GROUP, input=group_input) == Refusal("INVALID_INPUT", "subBiz")
    assert await api.expect_refusal(alice, SESSIONS, subBiz=name) == Refusal("INVALID_INPUT", "subBiz")
    assert await api.stored_hashes() == stored


async def test_sub_biz_together_with_conversation_id_is_refused(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob, subBiz="shop")
    group = await api.create_group(alice, bob, carol, subBiz="shop")
    stored = await api.stored_hashes()
    for conversation_id in (private_id(alice, bob, "shop"), group, "g_1"):
        message = {"conversationId": conversation_id, "content": "x", "subBiz": "shop"}
        assert await api.expect_refusal(alice, SEND, input=message) == Refusal("INVALID_INPUT", "subBiz")
    assert await api.stored_hashes() == stored


async def test_null_is_the_same_as_no_sub_biz(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    assert (await api.send(alice, bob, subBiz=None))["session"]["subBiz"] is None
    group = await api.create_group(alice, bob, carol, subBiz=None)
    assert {session["conversation"]["id"] for session in await api.sessions(alice)} == {group, private_id(alice, bob)}


async def test_users_cannot_write_to_themselves_in_a_sub_biz(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    assert (await api.expect_send_refusal(alice, alice, subBiz="shop")).code == "INVALID_INPUT"


async def test_a_group_in_a_sub_biz_is_listed_there_for_every_member(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, name="Desk", subBiz="shop")
    await api.invite(bob, group, dave)
    for user in (alice, bob, carol, dave):
        assert (await api.own_session(user, group))["subBiz"] == "shop"
        assert await api.titles(user, sub_biz="shop") == ["Desk"]
        assert await api.titles(user) == ["shop"]
    await api.send(alice, group)
    assert await api.total_unread(dave) == 1


async def test_a_member_who_joins_after_a_cache_loss_has_it_in_the_sub_biz(
    losing_api: Api, deployments: Deployments
) -> None:
    api = losing_api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, subBiz="shop")
    for _ in range(2):
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        await api.invite(alice, group, dave)
        for user in (alice, dave):
            assert (await api.own_session(user, group))["subBiz"] == "shop"
            assert await api.titles(user) == ["shop"]


async def test_the_idempotency_key_covers_the_sub_biz(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    first = await api.send(alice, bob, subBiz="shop", idempotencyKey="k")
    repeated = await api.send(alice, bob, subBiz="shop", idempotencyKey="k")
    assert (repeated["replayed"], repeated["message"]["id"]) == (True, first["message"]["id"])
    stored = await api.stored_hashes()
    for name in (None, "help"):
        refusal = await api.expect_send_refusal(alice, bob, subBiz=name, idempotencyKey="k")
        assert refusal == Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")
    group_input: Json = {"name": "x", "memberIds": [bob, carol], "idempotencyKey": "g"}
    assert await api.stored_hashes() == stored
    group = await api.data(alice, CREATE_GROUP, input=group_input | {"subBiz": "shop"})
    assert await api.data(alice, CREATE_GROUP, input=group_input) == group


async def test_the_main_list_shows_the_gateway_and_the_sub_biz_its_sessions(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    for other in (bob, carol, dave):
        await api.send(other, alice, subBiz="shop")
    await api.send(bob, alice)
    await api.send(carol, alice, subBiz="help")
    assert await api.titles(alice) == ["help", bob, "shop"]
    for page in (1, 2, 3):
        assert await api.titles(alice, page, sub_biz="shop") == [dave, carol, bob]
    assert await api.titles(alice, sub_biz="help") == [carol]
    await api.pin(alice, private_id(alice, bob, "shop"))
    assert await api.titles(alice, sub_biz="shop") == [bob, dave, carol]
    listed = (await api.data(alice, SESSIONS, first=2, subBiz="shop"))["sessions"]
    assert (listed["totalUnread"], listed["pageInfo"]["hasNextPage"]) == (5, True)


async def test_the_cursor_of_a_sub_biz_list_resumes_synchronisation(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice, subBiz="shop")
    cursor = (await api.data(alice, SESSIONS, subBiz="shop"))["sessions"]["cursor"]
    assert (await api.data(alice, SYNC, since=cursor))["syncSessions"]["sessions"] == []
    await api.send(bob, alice, subBiz="shop")
    delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
    assert [session["conversation"]["title"] for session in delta["sessions"]] == [bob, "shop"]


async def test_a_sub_biz_without_sessions_is_an_empty_list(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    listed = (await api.data(alice, SESSIONS, subBiz="shop"))["sessions"]
    assert (listed["edges"], listed["pageInfo"]["hasNextPage"]) == ([], False)


async def test_a_category_may_hold_sessions_inside_a_sub_biz(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    await api.send(bob, alice, subBiz="shop")
    await api.send(carol, alice, subBiz="shop")
    await api.assign(alice, "work", private_id(alice, bob), private_id(alice, bob, "shop"))
    listed = [session["conversation"]["id"] for session in await api.sessions(alice, category="work")]
    assert listed == [private_id(alice, bob, "shop"), private_id(alice, bob)]
    listed = [session["conversation"]["id"] for session in await api.sessions(alice, sub_biz="shop", category="work")]
    assert listed == [private_id(alice, bob, "shop")]
    (category,) = await api.categories(alice)
    assert (category["sessionCount"], category["unreadCount"]) == (2, 2)
    assert await api.titles(alice) == ["shop", bob]


async def test_sessions_inside_a_sub_biz_are_changed_like_others(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob, "shop")
    await api.send(bob, alice, subBiz="shop")
    assert (await api.set_unread(alice, conversation))["unreadStatus"] is True
    assert (await api.pin(alice, conversation, 4))["priority"] == 4
    assert (await api.mute(alice, conversation))["muteStatus"] is True
    assert await api.total_unread(alice) == 0
    assert (await api.unmute(alice, conversation))["muteStatus"] is False
    assert (await api.assign(alice, "work", conversation))[0]["categoryId"] == "work"
    assert (await api.mark_read(alice, conversation))["unreadCount"] == 0
    session = await api.delete(alice, conversation)
    assert (session["status"], session["subBiz"]) == ("INVALID", "shop")
    assert await api.sessions(alice, sub_biz="shop") == await api.sessions(alice) == []


BY_EVERY_FIELD = f"""query ($id: ID!, $node: ID!) {{
    node(id: $id) {{ id }} session: node(id: $node) {{ id }} conversation(id: $id) {{ id }} group(id: $id) {{ id }}
    own: session(conversationId: $id) {{ {SESSION} }} messages(conversationId: $id) {{ edges {{ cursor }} }} }}"""


async def test_a_gateway_exists_only_for_users_with_sessions_behind_it(api: Api) -> None:
    alice, bob, mallory = await api.create_users("alice", "bob", "mallory")
    name = f"x{secrets.token_hex(4)}"
    await api.send(alice, bob, subBiz=name)
    await api.send(mallory, bob)
    empty = dict.fromkeys(("node", "session", "conversation", "group", "own", "messages"))
    for user in (mallory, alice):
        for node in (f"s_{alice}_b_{name}", f"s_{mallory}_b_{name}", f"s_{bob}_b_{name}"):
            data = await api.data(mallory, BY_EVERY_FIELD, id=f"b_{name}", node=node)
            assert data == empty, (user, node)
    assert (await api.data(alice, BY_EVERY_FIELD, id=f"b_{name}", node=f"s_{bob}_b_{name}"))["session"] is None
    stored = await api.stored_hashes()
    for query, variables, field in (
        (MARK_READ, {}, "conversationId"),
        (MUTE, {"muted": True}, "conversationId"),
        (PIN, {}, "conversationId"),
        (DELETE, {}, "conversationId"),
        (SET_UNREAD, {}, "conversationId"),
        (ASSIGN, {"ids": [f"b_{name}"], "category": "work"}, "conversationIds"),
    ):
        arguments = variables if query is ASSIGN else {"id": f"b_{name}"} | variables
        assert await api.expect_refusal(mallory, query, **arguments) == Refusal("NOT_FOUND", field)
    assert await api.stored_hashes() == stored


async def test_a_gateway_accepts_no_messages_and_no_members(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob, subBiz="shop")
    stored = await api.stored_hashes()
    data = await api.data(alice, BY_EVERY_FIELD, id="b_shop", node=f"s_{alice}_b_shop")
    assert (data["messages"], data["group"]) == (None, None)
    assert (data["node"], data["conversation"]) == ({"id": "b_shop"}, {"id": "b_shop"})
    message = {"conversationId": "b_shop", "content": "x"}
    assert await api.expect_refusal(alice, SEND, input=message) == Refusal("NOT_FOUND", "conversationId")
    assert await api.expect_refusal(alice, INVITE, id="b_shop", users=[carol]) == Refusal("NOT_FOUND", "groupId")
    with pytest.raises(RequestRefused) as caught:
        await api.subscribe(alice, LIVE_MESSAGES, id="b_shop")
    assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_hashes() == stored


async def test_a_conversation_inside_a_sub_biz_is_hidden_from_others(api: Api) -> None:
    alice, bob, mallory = await api.create_users("alice", "bob", "mallory")
    await api.send(alice, bob, subBiz="shop")
    await api.send(alice, mallory, subBiz="shop")
    conversation = private_id(alice, bob, "shop")
    data = await api.data(mallory, BY_EVERY_FIELD, id=conversation, node=f"s_{alice}_{conversation}")
    assert set(data.values()) == {None}
    assert await api.titles(mallory, sub_biz="shop") == [alice]
