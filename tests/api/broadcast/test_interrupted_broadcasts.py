"""Broadcasts and their changes survive dead servers and the loss of Redis: both places, once, with the same content."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from resolvers.messages.new_messages import NewMessage, input_digest
from store.base.ids import ConversationId, MessageId, UserId
from store.messages.message import Message, MessageKind, ReservedMessage
from store.redis.cache import Call
from tests.api.broadcast.calls import Broadcast, broadcast, copies_of, expect_same, find
from tests.api.client import EDIT, RECALL, SEND, Api, Json, gather_all
from tests.api.conftest import Deployments
from tests.api.reactions.calls import ADD
from tests.api.recovery.failing_steps import Fault, failing
from tests.api.threads.live_calls import PLACES, ThreadPlace, make_thread
from tests.api.threads.test_threads_inbox import forget

ALL_PARTITIONS = range(4096)
MOST_STEPS = 25


async def sweep(api: Api) -> None:
    """Finish what dead servers have left."""
    await api.services.housekeeper.sweep(ALL_PARTITIONS, -60_000)
    await api.wait_until_idle()


async def reserve(api: Api, sender: str, place: ThreadPlace, key: str) -> tuple[ReservedMessage, Json]:
    """Reserve the places of a broadcast as a server that dies then. Return them with the input."""
    store = api.services.app.store
    input = {"threadOf": place.parent["id"], "content": "both", "broadcast": True, "idempotencyKey": key}
    new = NewMessage(None, None, "both", key=key, thread_of=place.parent["id"], is_broadcast=True)
    thread = ConversationId(place.id)
    message = Message(
        MessageId(store.ids.next_pair()),
        thread,
        UserId(sender),
        MessageKind.TEXT,
        "both",
        key=key,
        digest=input_digest(thread, new, (), None),
        is_broadcast=True,
    )
    parents = await store.messages.find_by_ids([MessageId(int(place.parent["id"].removeprefix("m_")))])
    reserved = await store.reply_places.reserve(message, next(iter(parents.values())))
    assert isinstance(reserved, ReservedMessage) and reserved.copy is not None
    return reserved, input


async def store_one(api: Api, reserved: ReservedMessage) -> None:
    """Make one of both durable, and do nothing else."""
    store = api.services.app.store
    if reserved.change is not None:
        assert await store.groups.commit(reserved, store.clock.now_ms()) is not None
    else:
        await store.commits.commit([reserved], [store.clock.now_ms()], messages_first=False)


_CASES = [
    *((stored, is_first, False) for stored in ("none", "reply", "copy", "both") for is_first in (False, True)),
    # The copy is durable after the reply or with it, unless it is in the outbox.
    *((stored, is_first, True) for stored in ("none", "reply", "both") for is_first in (False, True)),
]
_SHORT = (("none", False, False), ("copy", True, False), ("reply", True, False), ("reply", True, True))


@pytest.mark.parametrize(
    ("stored", "is_first", "lost"),
    [pytest.param(*case, marks=() if case in _SHORT else pytest.mark.long) for case in _CASES],
)
async def test_a_broadcast_of_a_dead_server_is_finished_once(
    api: Api, other_api: Api, deployments: Deployments, stored: str, is_first: bool, lost: bool
) -> None:
    place = await make_thread(api, "group")
    sender = place.third if is_first else place.second
    reserved, input = await reserve(api, sender, place, f"key {place.id}")
    assert reserved.copy is not None and (reserved.change is not None) == is_first
    for name, part in (("reply", reserved), ("copy", reserved.copy)):
        if stored in (name, "both"):
            await store_one(api, part)
    if lost:
        deployments.flush_redis("main")
        for server in (api, other_api):
            await server.services.housekeeper.check_redis()
    else:
        await sweep(other_api)
    sent = await gather_all(*(server.data(sender, SEND, input=input) for server in (api, other_api)))
    replies = {each["sendMessage"]["message"]["id"] for each in sent}
    assert len(replies) == 1
    (reply,) = replies
    (copy,) = await copies_of(api, place.first, place, reply)
    await expect_same(other_api, place.first, Broadcast(place, {"id": reply}, copy), content="both")
    for conversation in (place.conversation, place.id):
        contents = [message["content"] for message in await api.history(place.first, conversation)]
        assert contents.count("both") == 1
    for user in (place.first, sender):
        await forget(api, user)
    unread = {user: (await api.own_session(user, place.conversation))["unreadCount"] for user in (place.first, sender)}
    assert unread == {place.first: 1, sender: 0}


@pytest.mark.parametrize("kind", PLACES)
async def test_a_missing_copy_gets_one_place(api: Api, other_api: Api, deployments: Deployments, kind: str) -> None:
    """Several requests repeat the send and find no copy at the same time. The seqs have no gap afterwards."""
    place = await make_thread(api, kind)
    reserved, input = await reserve(api, place.second, place, f"key {place.id}")
    await store_one(api, reserved)
    deployments.flush_redis("main")
    servers = (api, other_api)
    for server in servers:
        await server.services.housekeeper.check_redis()
    await gather_all(*(server.services.app.delivery.complete_copy(reserved.message) for server in servers * 3))
    for server in servers:
        assert len(await copies_of(server, place.first, place, f"m_{reserved.message.id}")) == 1
        assert (await server.data(place.second, SEND, input=input))["sendMessage"]["replayed"]
    await api.send(place.second, place.conversation, "next")
    seqs = sorted(message["seq"] for message in await api.history(place.first, place.conversation))
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert await api.unread(place.first, place.conversation) == 2


@pytest.mark.parametrize("kind", PLACES)
async def test_a_copy_that_another_server_completes_follows_an_edited_reply(
    api: Api, other_api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """One server read the reply before the edit, and gives the copy its place. The other one read it after the edit."""
    place = await make_thread(api, kind)
    reserved, _ = await reserve(api, place.second, place, f"key {place.id}")
    await store_one(api, reserved)
    deployments.flush_redis("main")
    for server in (api, other_api):
        await server.services.housekeeper.check_redis()
    reply = f"m_{reserved.message.id}"
    await api.data(place.second, EDIT, id=reply, content="edited")
    store = other_api.services.app.store
    edited = await store.messages.find_in_conversation(reserved.message.conversation, reserved.message.id)
    assert edited is not None and edited.text == "edited"
    await api.services.app.delivery.complete_copy(reserved.message)

    find_copy, misses = store.copies.find, [None, None]

    async def find_late(reply: Message) -> Message | None:
        """Return None for the first two calls, as if the first server stored the copy after them."""
        return misses.pop() if misses else await find_copy(reply)

    monkeypatch.setattr(store.copies, "find", find_late)
    await other_api.services.app.delivery.complete_copy(edited)
    (copy,) = await copies_of(api, place.first, place, reply)
    assert copy["content"] == "edited"


async def _edit(api: Api, made: Broadcast, message: str) -> Json:
    return await api.run(made.place.second, EDIT, id=message, content="edited")


async def _recall(api: Api, made: Broadcast, message: str) -> Json:
    return await api.run(made.place.second, RECALL, id=message)


async def _react(api: Api, made: Broadcast, message: str) -> Json:
    return await api.run(made.place.first, ADD, id=message, emoji="👍")


Change = Callable[[Api, Broadcast, str], Awaitable[Json]]
CHANGES: dict[str, Change] = {"edit": _edit, "recall": _recall, "react": _react}


async def interrupt(api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, at: int) -> bool:
    """Let a server die before a step of a change. False: it has fewer steps."""
    made = await broadcast(api, (place := await make_thread(api, kind)).second, place)
    await find(api, place.first, made.copy["id"])
    change = CHANGES[name]
    with failing(api, monkeypatch, Fault.DEATH, at, lambda: None) as steps:
        answer = await change(api, made, made.copy["id"])
        await asyncio.sleep(0.03)
    if not steps.has_failed:
        assert "errors" not in answer
        return False
    await sweep(other_api)
    found = [await find(other_api, place.first, message["id"]) for message in (made.reply, made.copy)]
    assert found[0]["content"] == found[1]["content"] and found[0]["reactions"] == found[1]["reactions"]
    await expect_same(other_api, place.first, made)
    assert "errors" not in await change(other_api, made, made.reply["id"])
    await expect_same(other_api, place.first, made)
    expected = {"edit": {"content": "edited"}, "recall": {"state": "RECALLED"}, "react": {}}[name]
    await expect_same(api, place.first, made, **expected)
    return True


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("at", [5, 8])
async def test_a_change_of_a_dead_server_is_in_both_places_or_in_none(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, name: str, at: int
) -> None:
    await interrupt(api, other_api, monkeypatch, "group", name, at)


@pytest.mark.long
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("name", CHANGES)
async def test_a_server_may_die_before_any_step_of_a_change(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    for at in range(1, MOST_STEPS):
        # Periodic work has steps too.
        if not await interrupt(api, other_api, monkeypatch, kind, name, at):
            assert at > 3
            return


@pytest.mark.parametrize("kind", ["group", "private"])
async def test_places_that_are_taken_keep_reply_and_copy_together(api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    store = api.services.app.store
    await broadcast(api, place.second, place, "before")
    for conversation in (place.conversation, place.id):
        # As a Redis does that was restored from a snapshot.
        head = store.keys.head(ConversationId(conversation))
        await store.cache.one(Call("HSET", (head,), ("s", 1, "n", 1, "ls", 1)))
    made = await broadcast(api, place.second, place, "after")
    await api.edit(place.second, made.copy["id"], "edited")
    await expect_same(api, place.first, made, content="edited")
    shown = await api.history(place.first, place.conversation)
    assert [message["content"] for message in shown] == ["parent", "before", "edited"]
    assert all(first["seq"] < second["seq"] for first, second in pairwise(shown))
