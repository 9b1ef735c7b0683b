"""What is not the viewer's is not there: through no field, and with no hint that it exists."""

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

OF_A_CONVERSATION = """query ($id: ID!) {
    node(id: $id) { id } conversation(id: $id) { id } group(id: $id) { id }
    session(conversationId: $id) { id } messages(conversationId: $id) { edges { cursor } } }"""
OF_A_MESSAGE = "query ($id: ID!) { node(id: $id) { id } message(id: $id) { id } }"
OF_A_SESSION = "query ($id: ID!) { node(id: $id) { id } session(conversationId: $id) { id } }"
EVERY_TYPE = """query ($id: ID!) { node(id: $id) { __typename id ... on Conversation { title lastMessage { id } session { id } }
    ... on PrivateConversation { peer { id } } ... on Group { owner { id } } } }"""


@dataclass(frozen=True)
class World:
    """Alice and bob talk, and have a group with carol. Mallory is in neither, and has a life of his own."""

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
async def world(process: Api) -> World:
    alice, bob, carol, mallory = await process.create_users("alice", "bob", "carol", "mallory")
    group = await process.create_group(alice, bob, carol, name="Secret plans")
    spoken = await process.send(alice, bob, "secret"), await process.send(alice, group, "secret")
    await process.send(mallory, carol, "own")
    await process.create_group(mallory, carol, bob)
    first, second = (payload["message"]["id"] for payload in spoken)
    return World(process, alice, bob, carol, mallory, group, (first, second))


async def test_foreign_things_are_null_and_those_that_do_not_exist_look_the_same(world: World) -> None:
    api, mallory = world.api, world.mallory
    for conversation in (*world.conversations, private_id(world.alice, "nobody"), private_id(mallory, "nobody"), "g_1"):
        answer = await api.run(mallory, OF_A_CONVERSATION, id=conversation)
        assert answer == {"data": dict.fromkeys(("node", "conversation", "group", "session", "messages"))}
    for message in (*world.messages, "m_1"):
        assert await api.run(mallory, OF_A_MESSAGE, id=message) == {"data": {"node": None, "message": None}}
    for user in (world.alice, mallory):
        for conversation in world.conversations:
            answer = await api.run(mallory, OF_A_SESSION, id=f"s_{user}_{conversation}")
            assert answer == {"data": {"node": None, "session": None}}


async def test_refusals_do_not_tell_the_foreign_from_what_does_not_exist(world: World) -> None:
    api, mallory = world.api, world.mallory

    async def answers(conversation: str, group: str, message: str) -> list[Json]:
        written = {"content": "x", "conversationId": conversation}
        asked: list[tuple[str, Json]] = [
            (MARK_READ, {"id": conversation}),
            (SEND, {"input": written}),
            (SEND, {"input": {"content": "x", "conversationId": group}}),
            (SEND, {"input": {"content": "x", "conversationId": group, "replyToId": message}}),
            (SEND, {"input": {"content": "x", "conversationId": group, "mentionAll": True}}),
            (SEND, {"input": {"content": "x", "toUserId": world.carol, "replyToId": message}}),
            (INVITE, {"id": group, "users": [mallory]}),
            (INVITE, {"id": group, "users": ["nobody"]}),
        ]
        return [await api.run(mallory, query, **variables) for query, variables in asked]

    there = await answers(*world.conversations, world.messages[1])
    assert there == await answers(private_id(world.alice, "nobody"), "g_1", "m_1")
    assert {response["errors"][0]["extensions"]["code"] for response in there} == {"NOT_FOUND", "INVALID_INPUT"}


async def test_foreign_conversations_can_not_be_subscribed_to(world: World) -> None:
    for conversation in (*world.conversations, "g_1", ""):
        with pytest.raises(RequestRefused) as caught:
            await world.api.subscribe(world.mallory, LIVE_MESSAGES, id=conversation)
        (error,) = caught.value.errors
        assert parse_refusal(error) == Refusal("NOT_FOUND", "conversationId")


async def test_nothing_of_others_comes_through_lists_or_subscriptions(world: World, api: Api) -> None:
    listeners = [await api.listen(world.mallory, query) for query in (LIVE_MESSAGES, LIVE_SESSIONS)]
    await api.send(world.bob, world.alice)
    await api.send(world.carol, world.group)
    await api.mark_read(world.alice, world.group)
    await api.wait_until_idle()
    for listener in listeners:
        await listener.expect_no_event(0.03)
    listed = (await api.data(world.mallory, SESSIONS))["sessions"]
    assert {edge["node"]["conversation"]["id"] for edge in listed["edges"]}.isdisjoint(world.conversations)
    delta = (await api.data(world.mallory, SYNC))["syncSessions"]
    assert {session["conversation"]["id"] for session in delta["sessions"]}.isdisjoint(world.conversations)
    groups = (await api.data(world.mallory, "{ myGroups { edges { node { id } } } }"))["myGroups"]["edges"]
    assert world.group not in {edge["node"]["id"] for edge in groups}
    assert await api.total_unread(world.mallory) == 0


async def test_ones_own_things_are_found_as_nodes_of_their_kind(world: World) -> None:
    api, alice = world.api, world.alice
    talk, group = world.conversations
    for id, kind in (
        (talk, "PrivateConversation"),
        (group, "Group"),
        (world.messages[0], "Message"),
        (f"s_{alice}_{talk}", "Session"),
        (f"s_{alice}_{group}", "Session"),
        (alice, "User"),
        (world.mallory, "User"),
    ):
        node = (await api.data(alice, EVERY_TYPE, id=id))["node"]
        assert (node["__typename"], node["id"]) == (kind, id)
    shown = (await api.data(alice, EVERY_TYPE, id=talk))["node"]
    assert (shown["title"], shown["peer"]) == (world.bob, {"id": world.bob})
    shown = (await api.data(world.bob, EVERY_TYPE, id=talk))["node"]
    assert (shown["title"], shown["peer"]) == (world.alice, {"id": world.alice})


async def test_everybody_sees_their_own_session_of_a_shared_conversation(world: World) -> None:
    talk = world.conversations[0]
    for user in (world.alice, world.bob):
        shown = (await world.api.data(user, EVERY_TYPE, id=talk))["node"]
        assert shown["session"] == {"id": f"s_{user}_{talk}"}
        other = world.bob if user == world.alice else world.alice
        node = await world.api.data(user, OF_A_SESSION, id=f"s_{other}_{talk}")
        assert node == {"node": None, "session": None}


async def test_only_the_sender_sees_the_key(world: World, api: Api) -> None:
    await api.send(world.alice, world.group, idempotencyKey="mine")
    assert (await api.history(world.alice, world.group))[-1]["idempotencyKey"] == "mine"
    listener = await api.listen(world.bob)
    for user in (world.bob, world.carol):
        assert (await api.history(user, world.group))[-1]["idempotencyKey"] is None
    await api.send(world.carol, world.group, idempotencyKey="hers")
    assert (await listener.next())["message"]["idempotencyKey"] is None
