"""Messages sent with silent: stored, part of the input, kept by every later change, and visible to nobody."""

from __future__ import annotations

import pytest

from resolvers.messages.new_messages import NewMessage, input_digest
from store.base.ids import ConversationId, MessageId, UserId, parse_message_id
from store.messages.message import Message, MessageKind, ReservedMessage
from tests.api.broadcast.calls import broadcast
from tests.api.client import Api, Json, Refusal, private_id
from tests.api.threads.live_calls import make_thread

ALL_PARTITIONS = range(4096)
PLACES = ["private", "group", "channel", "thread in a group", "thread in a channel"]


async def stored(api: Api, message: str) -> Message:
    """Return a message as MongoDB has it."""
    id = parse_message_id(message)
    assert id is not None
    (found,) = (await api.services.app.store.messages.find_by_ids([id])).values()
    return found


async def make_place(api: Api, kind: str) -> tuple[str, str, str]:
    """Return two users, and where the first one sends."""
    if kind.startswith("thread"):
        place = await make_thread(api, kind.rpartition(" ")[2])
        return place.second, place.third, place.parent["id"]
    if kind == "channel":
        place = await make_thread(api, "channel")
        return place.second, place.third, place.conversation
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    return alice, bob, bob if kind == "private" else await api.create_group(alice, bob, carol)


@pytest.mark.parametrize("kind", PLACES)
async def test_silent_is_stored_and_kept_by_later_changes(api: Api, other_api: Api, kind: str) -> None:
    sender, _, to = await make_place(api, kind)
    silent = (await api.send(sender, to, "hush", silent=True))["message"]
    loud = [(await api.send(sender, to, "hi", **more))["message"] for more in ({}, {"silent": False}, {"silent": None})]
    assert (await stored(api, silent["id"])).is_silent
    assert not any([(await stored(api, message["id"])).is_silent for message in loud])
    await other_api.edit(sender, silent["id"], "hush!")
    assert (await stored(api, silent["id"])).is_silent
    await api.recall(sender, silent["id"])
    assert (await stored(api, silent["id"])).is_silent


@pytest.mark.parametrize("kind", ["group", "channel"])
async def test_the_copy_of_a_silent_broadcast_is_silent(api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    for is_silent in (True, False):
        made = await broadcast(api, place.second, place, silent=is_silent)
        assert [(await stored(api, each["id"])).is_silent for each in (made.reply, made.copy)] == [is_silent] * 2


async def test_a_silent_message_is_unread_and_live_like_any_other(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    listener = await other_api.listen(bob)
    sent = (await api.send(alice, bob, "hush", silent=True))["message"]
    event: Json = await listener.next()
    assert (event["__typename"], event["message"]["id"]) == ("MessageCreated", sent["id"])
    assert await other_api.unread(bob, private_id(alice, bob)) == await api.total_unread(bob) == 1


async def test_silent_is_part_of_the_input_of_a_repeated_request(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for key, first, other in (("k", True, False), ("l", False, True)):
        sent = await api.send(alice, bob, "x", idempotencyKey=key, silent=first)
        before = await api.stored_hashes()
        refusal = await api.expect_send_refusal(alice, bob, "x", idempotencyKey=key, silent=other)
        assert refusal == Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")
        assert await api.stored_hashes() == before
        again = await api.send(alice, bob, "x", idempotencyKey=key, silent=first)
        assert (again["message"]["id"], again["replayed"]) == (sent["message"]["id"], True)


def test_a_message_that_is_not_silent_has_the_digest_that_older_servers_make() -> None:
    group, new = ConversationId("g_1"), NewMessage(None, "g_1", "x")
    assert input_digest(group, new, (), None) == "392dc4cf49efc1269da8d15d"


async def test_a_silent_message_of_a_dead_server_is_delivered_silent(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    store, conversation = api.services.app.store, ConversationId(private_id(alice, bob))
    message = Message(
        MessageId(store.ids.next()), conversation, UserId(alice), MessageKind.TEXT, "hush", is_silent=True
    )
    reserved = await store.outbox.reserve(message, by_moderator=False)
    assert isinstance(reserved, ReservedMessage)
    await other_api.services.housekeeper.sweep(ALL_PARTITIONS, -60_000)
    await other_api.wait_until_idle()
    assert (await stored(api, message.public_id)).is_silent
    assert await api.total_unread(bob) == 1
