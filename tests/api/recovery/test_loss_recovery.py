"""Servers died and Redis was lost before what they had stored was shown: it is found in MongoDB, and shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from store.base.ids import UserId
from store.messages.message import Message
from tests.api.client import RECALL, SILENCE_SECONDS, Api, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.targeting import as_sharded


async def store_alone(api: Api, monkeypatch: pytest.MonkeyPatch, sender: str, new: NewMessage) -> None:
    """As by a server that dies between the message's row and all else."""
    mongo, before = api.services.app.store.mongo, api.database["messages"].count_documents({})
    died = asyncio.Event()

    async def die(*_: object) -> None:
        await died.wait()

    with monkeypatch.context() as patch:
        patch.setattr(mongo, "update_each", die)
        dying = asyncio.create_task(send_message(api.services.app, UserId(sender), new))
        while api.database["messages"].count_documents({}) == before:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        delivery = api.services.app.delivery
        for message in delivery.in_flight:
            delivery.in_flight.remove(message)
        dying.cancel()
        for task in list(delivery.commit_stage._tasks):
            task.cancel()
        await asyncio.sleep(0)


async def test_what_dead_servers_stored_and_showed_to_nobody_is_shown_after_redis_was_lost_with_what_they_left(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("mending") as dying, open_api("mending") as api:
        await api.services.housekeeper.close()
        await dying.services.housekeeper.close()
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        talk = private_id(alice, bob)
        await api.send(bob, alice, "before")
        group = await api.create_group(bob, alice, carol)
        await api.send(bob, group, "before")
        await api.wait_until_idle()
        await store_alone(dying, monkeypatch, alice, NewMessage(bob, None, "in private"))
        await store_alone(dying, monkeypatch, alice, NewMessage(None, group, "in the group"))
        deployments.flush_redis("mending")

        await api.services.housekeeper.check_redis()
        assert await api.unread(bob, talk) == await api.unread(carol, group) - 1 == 0
        listening = await api.listen(bob)
        await api.services.housekeeper.check_redis()
        await api.services.housekeeper._loss_recovery.recover()

        assert await api.unread(bob, talk) == await api.unread(carol, group) - 1 == 1
        # Sending reads, for the sender too whose server died.
        assert await api.unread(alice, talk) == await api.unread(alice, group) == 0
        told = {(event["message"]["content"]) for event in await listening.take(2)}
        assert told == {"in private", "in the group"}
        warm = await api.all_sessions(alice)
        deployments.evict_user_state("mending", alice)
        assert {c: s["unreadCount"] for c, s in (await api.all_sessions(alice)).items()} == {
            c: s["unreadCount"] for c, s in warm.items()
        }
        await api.services.housekeeper.check_redis()
        assert api.services.app.store.deployment.generations.recover_from_ms is None
        # Alice has read what there was, which Bob is told; nothing else.
        await asyncio.sleep(SILENCE_SECONDS)
        assert {event["__typename"] for event in listening.pop_events()} <= {"ReceiptAdvanced"}


async def test_where_redis_is_lost_again_while_what_was_stored_is_looked_through_it_is_looked_through_again(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_api("lost twice") as api:
        keeper, store = api.services.housekeeper, api.services.app.store
        await keeper.close()
        alice, bob = await api.create_users("alice", "bob")
        await api.send(alice, bob)
        await api.wait_until_idle()
        deployments.flush_redis("lost twice")
        for _ in range(2):
            await keeper.check_redis()
        list_page = store.incomplete_deliveries.list_page

        async def lose_meanwhile(*args: Any) -> list[Message]:
            page = await list_page(*args)
            if not page:
                deployments.flush_redis("lost twice")
                await keeper.check_redis()
            return page

        with monkeypatch.context() as patch:
            patch.setattr(store.incomplete_deliveries, "list_page", lose_meanwhile)
            await keeper._loss_recovery.recover()
        await keeper.check_redis()
        assert store.deployment.generations.recover_from_ms is not None
        await keeper._loss_recovery.recover()
        await keeper.check_redis()
        assert store.deployment.generations.recover_from_ms is None


async def test_a_message_that_was_stored_on_shards_and_not_noted_is_found_by_its_id(
    open_api: OpenApi, deployments: Deployments
) -> None:
    with as_sharded():
        async with open_api("not noted") as api:
            keeper = api.services.housekeeper
            await keeper.close()
            await api.services.app.store.messages.origins.fill()
            alice, bob = await api.create_users("alice", "bob")
            sent = (await api.send(alice, bob))["message"]["id"]
            await api.wait_until_idle()
            assert api.database["origins"].delete_one({"_id": int(sent.removeprefix("m_"))}).deleted_count
            assert (await api.expect_refusal(alice, RECALL, id=sent)).code == "NOT_FOUND"
            deployments.flush_redis("not noted")
            for _ in range(2):
                await keeper.check_redis()
            await keeper._loss_recovery.recover()
            assert (await api.recall(alice, sent))["content"] is None
