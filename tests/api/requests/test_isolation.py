"""Objects that the viewer may not see: no field returns them, and nothing tells that they exist."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from subscriptions.transport.engine import RequestRefused
from tests.api.client import (
    INVITE,
    LIVE_MESSAGES,
    LIVE_SESSIONS,
    SEND,
    SYNC,
    Api,
    Json,
    Refusal,
    parse_refusal,
    private_id,
)
from tests.api.session_calls import MARK_READ, SESSIONS

CONVERSATION_BY_ID = """query ($id: ID!) {
    node(id: $id) { id } conversation(id: $id) { id } group(id: $id) { id }
    session(conversationId: $id) { id } messages(conversationId: $id) { edges { cursor } } }"""
MESSAGE_BY_ID = "query ($id: ID!) { node(id: $id) { id } message(id: $id) { id } }"
SESSION_BY_ID = "query ($id: ID!) { node(id: $id) { id } session(conversationId: $id) { id } }"
NODE_BY_ID = """query ($id: ID!) { node(id: $id) { __typename id ... on Conversation { title lastMessage { id }
        session { id } }
    ... on PrivateConversation { peer { id } } ... on Group { owner { id } } } }"""


@dataclass(frozen=True)
class IsolatedUsers:
    """alice and bob have a conversation, and a group with carol. mallory is in neither of them."""

    api: Api
    alice: str
    bob: str
    carol: str
    mallory: str
    group: str
    messages: tuple[str, str]

    @property
    def conversations(self) -> tuple[str, str]:
        return private_id(self.alice, self.bob), self.group


@pytest.fixture(scope="module")
async def users(process: Api) -> IsolatedUsers:
    alice, bob, carol, mallory = await process.create_users("alice", "bob", "carol", "mallory")
    group = await process.create_group(alice, bob, carol, name="Secret plans")
    payloads = await process.send(alice, bob, "secret"), await process.send(alice, group, "secret")
    await process.send(mallory, carol, "own")
    await process.create_group(mallory, carol, bob)
    first, second = (payload["message"]["id"] for payload in payloads)
    return IsolatedUsers(process, alice, bob, carol, mallory, group, (first, second))


async def test_invisible_and_unknown_objects_are_null(users: IsolatedUsers) -> None:
    api, mallory = users.api, users.mallory
    for conversation in (*users.conversations, private_id(users.alice, "nobody"), private_id(mallory, "nobody"), "g_1"):
        answer = await api.run(mallory, CONVERSATION_BY_ID, id=conversation)
        assert answer == {"data": dict.fromkeys(("node", "conversation", "group", "session", "messages"))}
    for message in (*users.messages, "m_1"):
        assert await api.run(mallory, MESSAGE_BY_ID, id=message) == {"data": {"node": None, "message": None}}
    for user in (users.alice, mallory):
        for conversation in users.conversations:
            answer = await api.run(mallory, SESSION_BY_ID, id=f"s_{user}_{conversation}")
            assert answer == {"data": {"node": None, "session": None}}


async def test_refusals_do_not_reveal_invisible_objects(users: IsolatedUsers) -> None:
    api, mallory = users.api, users.mallory

    async def answers(conversation: str, group: str, message: str) -> list[Json]:
        plain_message = {"content": "x", "conversationId": conversation}
        operations: list[tuple[str, Json]] = [
            (MARK_READ, {"id": conversation}),
            (SEND, {"input": plain_message}),
            (SEND, {"input": {"content": "x", "conversationId": group}}),
            (SEND, {"input": {"content": "x", "conversationId": group, "replyToId": message}}),
            (SEND, {"input": {"content": "x", "conversationId": group, "mentionAll": True}}),
            (SEND, {"input": {"content": "x", "toUserId": users.carol, "replyToId": message}}),
            (INVITE, {"id": group, "users": [mallory]}),
            (INVITE, {"id": group, "users": ["nobody"]}),
        ]
        return [await api.run(mallory, query, **variables) for query, variables in operations]

    foreign = await answers(*users.conversations, users.messages[1])
    assert foreign == await answers(private_id(users.alice, "nobody"), "g_1", "m_1")
    assert {response["errors"][0]["extensions"]["code"] for response in foreign} == {"NOT_FOUND", "INVALID_INPUT"}


async def test_invisible_conversations_cannot_be_subscribed_to(users: IsolatedUsers) -> None:
    for conversation in (*users.conversations, "g_1", ""):
        with pytest.raises(RequestRefused) as caught:
            await users.api.subscribe(users.mallory, LIVE_MESSAGES, id=conversation)
        (error,) = caught.value.errors
        assert parse_refusal(error) == Refusal("NOT_FOUND", "conversationId")


async def test_lists_and_subscriptions_show_nothing_of_others(users: IsolatedUsers, api: Api) -> None:
    listeners = [await api.listen(users.mallory, query) for query in (LIVE_MESSAGES, LIVE_SESSIONS)]
    await api.send(users.bob, users.alice)
    await api.send(users.carol, users.group)
    await api.mark_read(users.alice, users.group)
    await api.wait_until_idle()
    for listener in listeners:
        await listener.expect_no_event(0.03)
    listed = (await api.data(users.mallory, SESSIONS))["sessions"]
    assert {edge["node"]["conversation"]["id"] for edge in listed["edges"]}.isdisjoint(users.conversations)
    delta = (await api.data(users.mallory, SYNC))["syncSessions"]
    assert {session["conversation"]["id"] for session in delta["sessions"]}.isdisjoint(users.conversations)
    groups = (await api.data(users.mallory, "{ myGroups { edges { node { id } } } }"))["myGroups"]["edges"]
    assert users.group not in {edge["node"]["id"] for edge in groups}
    assert await api.total_unread(users.mallory) == 0


async def test_visible_objects_are_found_as_nodes_of_their_type(users: IsolatedUsers) -> None:
    api, alice = users.api, users.alice
    conversation, group = users.conversations
    for id, kind in (
        (conversation, "PrivateConversation"),
        (group, "Group"),
        (users.messages[0], "Message"),
        (f"s_{alice}_{conversation}", "Session"),
        (f"s_{alice}_{group}", "Session"),
        (alice, "User"),
        (users.mallory, "User"),
    ):
        node = (await api.data(alice, NODE_BY_ID, id=id))["node"]
        assert (node["__typename"], node["id"]) == (kind, id)
    node_shown = (await api.data(alice, NODE_BY_ID, id=conversation))["node"]
    assert (node_shown["title"], node_shown["peer"]) == (users.bob, {"id": users.bob})
    node_shown = (await api.data(users.bob, NODE_BY_ID, id=conversation))["node"]
    assert (node_shown["title"], node_shown["peer"]) == (users.alice, {"id": users.alice})


async def test_users_see_only_their_own_session_of_a_conversation(users: IsolatedUsers) -> None:
    conversation = users.conversations[0]
    for user in (users.alice, users.bob):
        node_shown = (await users.api.data(user, NODE_BY_ID, id=conversation))["node"]
        assert node_shown["session"] == {"id": f"s_{user}_{conversation}"}
        other = users.bob if user == users.alice else users.alice
        node = await users.api.data(user, SESSION_BY_ID, id=f"s_{other}_{conversation}")
        assert node == {"node": None, "session": None}


async def test_only_the_sender_sees_the_idempotency_key(users: IsolatedUsers, api: Api) -> None:
    await api.send(users.alice, users.group, idempotencyKey="mine")
    assert (await api.history(users.alice, users.group))[-1]["idempotencyKey"] == "mine"
    listener = await api.listen(users.bob)
    for user in (users.bob, users.carol):
        assert (await api.history(user, users.group))[-1]["idempotencyKey"] is None
    await api.send(users.carol, users.group, idempotencyKey="hers")
    assert (await listener.next())["message"]["idempotencyKey"] is None
