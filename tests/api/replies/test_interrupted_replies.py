"""Replies survive dead servers, taken places, and the loss of Redis, each with the followers that it brings."""

from __future__ import annotations

import asyncio

import pytest

from store.base.errors import Unreachable
from store.base.ids import PARTITIONS, MessageId
from store.messages.message import CommittedMessage
from store.mongo.collections import CONVERSATIONS
from store.redis.cache import Call
from tests.api.client import Api, gather_all
from tests.api.conftest import Deployments
from tests.api.replies.thread_of_message import ThreadOfMessage, unread


async def begin(api: Api, *, replies: int = 1) -> tuple[ThreadOfMessage, list[str]]:
    """Create a group of alice, bob, carol and dave with a message of alice, and replies of bob."""
    users = await api.create_users("alice", "bob", "carol", "dave")
    thread = ThreadOfMessage(await api.send(users[0], await api.create_group(*users)))
    for _ in range(replies):
        await thread.reply(api, users[1])
    for user in users:
        await api.sessions(user)
    return thread, list(users)


async def sweep(api: Api) -> None:
    """Finish what other servers have left."""
    await api.services.housekeeper.sweep(range(PARTITIONS), 0)


async def test_a_thread_that_was_opened_without_a_reply_gets_its_first_one_later(api: Api, other_api: Api) -> None:
    thread, (_, bob, *_) = await begin(api, replies=0)
    store = api.services.app.store
    (parent,) = (await store.messages.find_by_ids([thread.parent_id])).values()
    await store.threads.open(parent, bob, store.clock.now_ms())  # type: ignore[arg-type]
    assert (await thread.head(api)).newest is None
    assert (await thread.reply(other_api, bob)).seq == 1
    assert (await thread.head(api)).reply_count == 1


@pytest.mark.parametrize("step", ["placed", "stored"])
async def test_a_reply_of_a_dead_server_is_finished_with_its_followers(api: Api, other_api: Api, step: str) -> None:
    thread, (_, bob, carol, dave) = await begin(api)
    store = api.services.app.store
    place = await thread.reserve(api, carol, [dave])
    if step == "stored":
        assert await store.groups.commit(place, store.clock.now_ms()) is not None
    await sweep(other_api)
    for user, count in ((bob, 1), (carol, 0), (dave, 1)):
        assert await unread(store, user, thread.id) == count
    head = await thread.head(api)
    assert head.thread is not None
    assert (head.reply_count, head.member_count, head.thread.participants) == (2, 3, (carol, bob))
    assert await thread.followers(other_api) == [bob, carol, dave]
    # The next change does not wait for it any more.
    await thread.reply(api, dave)


async def test_a_reply_whose_place_is_taken_gets_another_one(api: Api) -> None:
    thread, (alice, bob, carol, _) = await begin(api)
    store = api.services.app.store
    head_key = store.keys.head(thread.id)

    async def forget_places() -> None:
        """Set the head in Redis back, as a Redis does that was restored from a snapshot."""
        await store.cache.one(Call("HSET", (head_key,), ("s", 0, "n", 0, "ls", 0)))

    await forget_places()
    assert (await thread.reply(api, bob)).seq == 2
    await forget_places()
    assert (await thread.reply(api, carol)).seq == 3
    await forget_places()
    await gather_all(*(thread.reply(api, user) for user in (alice, bob, carol)))
    head = await thread.head(api)
    assert head.thread is not None and (head.reply_count, head.thread.participant_count) == (6, 3)
    assert await thread.followers(api) == sorted([alice, bob, carol])
    row = api.database["conversations"].find_one({"_id": thread.id})
    assert row is not None and (row["n"], row["mc"], row["rp"]) == (6, 3, 3)


async def test_a_reply_that_was_decided_on_old_followers_is_decided_again(api: Api) -> None:
    thread, (_, bob, carol, dave) = await begin(api)
    store = api.services.app.store
    # MongoDB has a later version of the thread than Redis.
    await store.mongo.update_one(CONVERSATIONS, {"_id": thread.id}, {"$inc": {"gv": 1}})
    reply = await thread.reply(api, carol, [dave])
    assert reply.seq == 2
    head = await thread.head(api)
    assert (head.version, head.member_count, head.reply_count) == (3, 3, 2)
    assert [await unread(store, user, thread.id) for user in (bob, carol, dave)] == [1, 0, 1]


async def test_threads_work_after_the_loss_of_redis(api: Api, deployments: Deployments) -> None:
    thread, (_, bob, carol, _) = await begin(api)
    place = await thread.reserve(api, carol)
    deployments.flush_redis("main")
    await api.services.app.delivery.send(place)
    assert (await thread.reply(api, bob)).seq == 3
    await api.services.housekeeper.check_redis()
    store = api.services.app.store
    assert [await unread(store, user, thread.id) for user in (bob, carol)] == [0, 1]
    head = await thread.head(api)
    assert head.thread is not None
    assert (head.reply_count, head.member_count, head.thread.participants) == (3, 2, (bob, carol))


async def test_stored_replies_of_dead_servers_are_found_after_a_loss(api: Api, deployments: Deployments) -> None:
    thread, (_, bob, carol, _) = await begin(api)
    store = api.services.app.store
    place = await thread.reserve(api, bob, [])
    first, _ = await store.commits.commit([place], [store.clock.now_ms()], messages_first=False)
    assert isinstance(first[0], CommittedMessage)
    # Its dependent writes were lost with the server.
    await store.mongo.update_one(CONVERSATIONS, {"_id": thread.id}, {"$set": {"s": 1, "n": 1}})
    deployments.flush_redis("main")
    messages = await store.incomplete_deliveries.list_page(0, MessageId(thread.parent_id), 10)
    assert [m.id for m in await store.incomplete_deliveries.select_incomplete(messages)] == [place.message.id]
    await api.services.app.delivery.deliver_stored(place.message)
    assert await store.incomplete_deliveries.select_incomplete(messages) == []
    assert (await thread.head(api)).reply_count == 2
    assert carol not in await thread.followers(api)


async def test_replies_wait_for_a_change_of_the_same_users(api: Api) -> None:
    thread, (_, bob, carol, dave) = await begin(api)
    pending = await thread.reserve(api, carol, [dave])
    waiting = [asyncio.create_task(thread.reply(api, user)) for user in (carol, dave)]
    # People who have replied before do not wait.
    assert (await thread.reply(api, bob)).seq == 3
    assert not any(task.done() for task in waiting)
    await api.services.app.delivery.send(pending)
    assert sorted([(await task).seq for task in waiting]) == [4, 5]
    assert (await thread.head(api)).member_count == 3


async def test_the_outcome_of_a_reply_is_unknown_while_mongodb_is_away(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, (_, bob, carol, _) = await begin(api)
    store = api.services.app.store
    place = await thread.reserve(api, carol)

    async def fail(*_: object) -> None:
        raise Unreachable("MongoDB is away")

    with monkeypatch.context() as patch:
        patch.setattr("subscriptions.delivery.commit_stage._COMMIT_SECONDS", 0.0)
        patch.setattr(type(store.groups), "commit", fail)
        with pytest.raises(Unreachable):
            await api.services.app.delivery.send(place)
    assert (await thread.head(api)).reply_count == 1
    await sweep(api)
    assert (await thread.head(api)).reply_count == 2
    assert await thread.followers(api) == [bob, carol]
