"""Servers died and Redis was lost before stored messages were fanned out: they are found in MongoDB and fanned out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from store.base.ids import UserId
from store.messages.message import Message
from store.mongo.collections import MESSAGES
from store.mongo.writes import Write
from store.redis.cache import Call
from tests.api.client import RECALL, SILENCE_SECONDS, Api, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.targeting import as_sharded


async def store_and_die(api: Api, monkeypatch: pytest.MonkeyPatch, sender: str, new: NewMessage) -> None:
    """Store a message as a server does that dies right after writing it."""
    mongo, count_before = api.services.app.store.mongo, api.database["messages"].count_documents({})
    write, never = mongo.write, asyncio.Event()

    async def write_messages_only(writes: Sequence[Write], *limit: Any) -> Any:
        if writes[0].collection != MESSAGES:
            return await write(writes, *limit)
        await write([one for one in writes if one.kind == "insert"])
        await never.wait()

    with monkeypatch.context() as patch:
        patch.setattr(mongo, "write", write_messages_only)
        dying = asyncio.create_task(send_message(api.services.app, UserId(sender), new))
        while api.database["messages"].count_documents({}) == count_before:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        delivery = api.services.app.delivery
        for message in delivery.in_flight:
            delivery.in_flight.remove(message)
        dying.cancel()
        for task in list(delivery.commit_stage.queue._tasks):
            task.cancel()
        await asyncio.sleep(0)


async def test_stored_messages_of_dead_servers_are_fanned_out_after_a_loss(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("recovery") as dying, open_api("recovery") as api:
        await api.services.housekeeper.close()
        await dying.services.housekeeper.close()
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        conversation = private_id(alice, bob)
        await api.send(bob, alice, "before")
        group = await api.create_group(bob, alice, carol)
        await api.send(bob, group, "before")
        await api.wait_until_idle()
        await store_and_die(dying, monkeypatch, alice, NewMessage(bob, None, "in private"))
        await store_and_die(dying, monkeypatch, alice, NewMessage(None, group, "in the group"))
        deployments.flush_redis("recovery")

        await api.services.housekeeper.check_redis()
        assert await api.unread(bob, conversation) == await api.unread(carol, group) - 1 == 0
        listener = await api.listen(bob)
        await api.services.housekeeper.check_redis()
        await api.services.housekeeper._loss_recovery.recover()

        assert await api.unread(bob, conversation) == await api.unread(carol, group) - 1 == 1
        # Sending reads, also for the sender whose server died.
        assert await api.unread(alice, conversation) == await api.unread(alice, group) == 0
        contents = {(event["message"]["content"]) for event in await listener.take(2)}
        assert contents == {"in private", "in the group"}
        cached = await api.all_sessions(alice)
        deployments.evict_user_state("recovery", alice)
        assert {c: s["unreadCount"] for c, s in (await api.all_sessions(alice)).items()} == {
            c: s["unreadCount"] for c, s in cached.items()
        }
        await api.services.housekeeper.check_redis()
        assert api.services.app.store.deployment.generations.recover_from_ms is None
        # alice has read the earlier messages, so bob receives a receipt; no other event.
        await asyncio.sleep(SILENCE_SECONDS)
        assert {event["__typename"] for event in listener.pop_events()} <= {"ReceiptAdvanced"}


async def test_loss_recovery_starts_again_after_a_second_loss(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("lost twice") as api:
        housekeeper, store = api.services.housekeeper, api.services.app.store
        await housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob)
        await api.wait_until_idle()
        deployments.flush_redis("lost twice")
        for _ in range(2):
            await housekeeper.check_redis()
        list_page = store.incomplete_deliveries.list_page

        async def list_and_lose_redis(*args: Any) -> list[Message]:
            page = await list_page(*args)
            if not page:
                deployments.flush_redis("lost twice")
                await housekeeper.check_redis()
            return page

        with monkeypatch.context() as patch:
            patch.setattr(store.incomplete_deliveries, "list_page", list_and_lose_redis)
            await housekeeper._loss_recovery.recover()
        await housekeeper.check_redis()
        assert store.deployment.generations.recover_from_ms is not None
        await housekeeper._loss_recovery.recover()
        await housekeeper.check_redis()
        assert store.deployment.generations.recover_from_ms is None


async def test_a_server_that_was_paused_leaves_the_recovery_to_another_one(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("paused") as api:
        housekeeper, store = api.services.housekeeper, api.services.app.store
        await housekeeper.close()
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob)
        await api.wait_until_idle()
        deployments.flush_redis("paused")
        for _ in range(2):
            await housekeeper.check_redis()
        list_page, key = store.incomplete_deliveries.list_page, store.keys.loss_recovery_lock

        async def list_and_lose_lock(*args: Any) -> list[Message]:
            await store.cache.one(Call("SET", (key,), ("another server",)))
            return await list_page(*args)

        with monkeypatch.context() as patch:
            patch.setattr(store.incomplete_deliveries, "list_page", list_and_lose_lock)
            await housekeeper._loss_recovery.recover()
        assert await store.cache.one(Call("GET", (key,))) == b"another server"
        assert await store.deployment.generations.is_recovering()
        await housekeeper._loss_recovery.recover()
        assert await store.deployment.generations.is_recovering()
        await store.cache.one(Call("DEL", (key,)))
        await housekeeper._loss_recovery.recover()
        assert not await store.deployment.generations.is_recovering()
        assert await store.cache.one(Call("GET", (key,))) is None


async def test_loss_recovery_notes_the_origin_of_stored_messages(open_api: OpenApi, deployments: Deployments) -> None:
    with as_sharded():
        async with open_api("not noted") as api:
            housekeeper = api.services.housekeeper
            await housekeeper.close()
            await api.services.app.store.messages.origins.fill()
            alice, bob = await api.create_users("alice", "bob")
            sent = (await api.send(alice, bob))["message"]["id"]
            await api.wait_until_idle()
            assert api.database["origins"].delete_one({"_id": int(sent.removeprefix("m_"))}).deleted_count
            assert (await api.expect_refusal(alice, RECALL, id=sent)).code == "NOT_FOUND"
            deployments.flush_redis("not noted")
            for _ in range(2):
                await housekeeper.check_redis()
            await housekeeper._loss_recovery.recover()
            assert (await api.recall(alice, sent))["content"] is None
