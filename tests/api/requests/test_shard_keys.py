"""On a cluster of shards every command names the shards it goes to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from typing import Any

import pytest
from graphql import FieldNode, OperationDefinitionNode, build_schema, parse

from schema.sdl import print_sdl
from store.base.ids import kind_of
from store.mongo.collections import CONVERSATIONS, ORIGINS, SESSIONS
from store.mongo.sharding import SHARD_KEYS
from tests.api.client import HISTORY, LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.targeting import Watch, as_sharded

TYPING = "mutation ($id: ID!) { startTyping(conversationId: $id) }"
MESSAGE = """query ($id: ID!) { message(id: $id) { seq replyTo { seq } delivery { readCount }
    receipts(first: 10) { edges { node { status readAt user { id } } } } } }"""
RECEIPTS = (
    "query ($id: ID!, $status: ReceiptStatus) { message(id: $id) { receipts(status: $status) { edges { cursor } } } }"
)


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    with as_sharded() as watch:
        yield watch


@pytest.fixture
async def sharded(watch: Watch, open_api: OpenApi) -> AsyncIterator[Api]:
    """A process that is connected to shards, as it seems to it, after `confab shard --apply`."""
    async with open_api("shards") as api:
        await api.services.app.store.messages.origins.fill()
        watch.untargeted.clear()
        yield api
        await api.wait_until_idle()


def root_fields(query: str) -> set[str]:
    operations = [d for d in parse(query).definitions if isinstance(d, OperationDefinitionNode)]
    return {
        field.name.value for o in operations for field in o.selection_set.selections if isinstance(field, FieldNode)
    }


async def test_every_operation_names_its_shards(
    watch: Watch, sharded: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, asked = sharded, set[str]()
    run, subscribe = api.run, api.subscribe

    async def noted_run(who: Any, query: str, **variables: Any) -> Any:
        asked.update(root_fields(query))
        return await run(who, query, **variables)

    async def noted_subscribe(who: Any, query: str, **variables: Any) -> Any:
        asked.update(root_fields(query))
        return await subscribe(who, query, **variables)

    monkeypatch.setattr(api, "run", noted_run)
    monkeypatch.setattr(api, "subscribe", noted_subscribe)
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    pair, in_shop = private_id(alice, bob), private_id(alice, bob, "shop")
    live = [await api.listen(bob, query) for query in (LIVE_MESSAGES, LIVE_SESSIONS)]
    sync = await api.data(alice, SYNC)
    first = (await api.send(alice, bob, "once", idempotencyKey="k"))["message"]
    await api.send(bob, pair, "again", replyToId=first["id"])
    await api.send(bob, alice, "in the shop", subBiz="shop")
    group = await api.create_group(alice, bob, carol, idempotencyKey="g")
    assert await api.create_group(alice, bob, carol, idempotencyKey="g") == group
    said = (await api.send(alice, group, "all of you", mentionAll=True, mentions=[carol]))["message"]
    await api.invite(alice, group, dave)
    await api.ack(bob, group, 1)
    await api.ack(alice, pair, 2)
    # All of it once with what Redis holds, once without.
    for _ in range(2):
        await api.data(alice, "query { me { id } myGroups { edges { node { id } } } totalUnread }")
        for node in (alice, first["id"], group, f"s_{alice}_{group}"):
            await api.data(alice, "query ($id: ID!) { node(id: $id) { id } }", id=node)
        await api.data(alice, "query ($id: ID!) { user(id: $id) { id } }", id=bob)
        await api.sessions(alice)
        await api.own_session(alice, pair)
        await api.sessions(alice, sub_biz="shop")
        await api.data(alice, SYNC, since=sync["syncSessions"]["cursor"])
        await api.categories(alice)
        await api.data(alice, "query ($id: ID!) { conversation(id: $id) { title lastMessage { id } } }", id=pair)
        await api.data(alice, HISTORY, id=group, first=2)
        await api.data(alice, HISTORY, id=pair, last=2)
        await api.data(bob, "{ offlineMessages { edges { node { id } } } }")
        await api.own_group(dave, group)
        for message in (first, said):
            assert (await api.data(alice, MESSAGE, id=message["id"]))["message"]["seq"] == message["seq"]
        for status in ("SENT", "DELIVERED", "READ"):
            await api.data(alice, RECEIPTS, id=said["id"], status=status)
        assert await api.data(alice, MESSAGE, id="m_77") == {"message": None}
        await api.wait_until_idle()
        deployments.flush_redis("shards")
        await api.services.app.store.deployment.check_redis()
    again = await api.send(alice, bob, "once", idempotencyKey="k")
    assert again["replayed"] and again["message"]["id"] == first["id"]
    elsewhere = await api.expect_send_refusal(alice, carol, "once", idempotencyKey="k")
    assert elsewhere == Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")
    await api.edit(alice, first["id"], "twice")
    await api.recall(alice, said["id"])
    await api.mark_read(bob, group, 1)
    await api.mark_read(bob, pair)
    await api.mark_read(alice, "b_shop")
    await api.mute(bob, pair)
    await api.pin(bob, pair)
    await api.set_unread(bob, pair)
    await api.assign(bob, "work", pair, group)
    await api.delete(bob, in_shop)
    await api.delete(bob, pair, hard=True)
    await api.data(bob, TYPING, id=group)
    await api.update_group(alice, group, name="Another")
    await api.remove(alice, group, dave)
    await api.set_role(alice, group, bob, "ADMIN")
    await api.leave(carol, group)
    await api.transfer(alice, group, bob)
    await api.dissolve(bob, group)
    other = await api.create_group(alice, bob, carol)
    await api.dismiss(alice, other)
    await api.upsert_users({"id": dave, "displayName": "Dave"})
    await api.expect_refusal(alice, 'mutation { renewAuth(token: "x") }')
    back = await api.subscribe(bob, LIVE_MESSAGES, since=sync["syncSessions"]["cursor"])
    await back.next()
    await api.wait_until_idle()
    assert all(listener.pop_events() for listener in live)

    schema = build_schema(print_sdl())
    roots = (schema.query_type, schema.mutation_type, schema.subscription_type)
    assert asked == {name for root in roots if root is not None for name in root.fields}
    assert watch.untargeted == []
    assert watch.seen.keys() >= SHARD_KEYS.keys()


async def test_a_transaction_is_about_one_conversation_and_the_people_it_concerns(watch: Watch, sharded: Api) -> None:
    users = await sharded.create_users(*(f"u{number}" for number in range(6)))
    watch.transactions.clear()
    group = await sharded.create_group(*users[:4])
    await sharded.invite(users[0], group, users[4], users[5])
    await sharded.leave(users[1], group)
    await sharded.wait_until_idle()
    concerned = []
    for statements in watch.transactions.values():
        owners = {(name, owner) for name, owner in statements if name != ORIGINS}
        by_collection = {
            name: {owner for _, owner in rows} for name, rows in groupby(sorted(owners), lambda row: row[0])
        }
        concerned.append(by_collection.pop(SESSIONS))
        assert by_collection[CONVERSATIONS] == {group}
        assert all(rows == {group} for rows in by_collection.values())
    assert concerned == [set(users[:4]), set(users[4:]), {users[1]}]


async def test_unique_indexes_begin_with_the_shard_key(sharded: Api) -> None:
    unique = 0
    for name, key in SHARD_KEYS.items():
        for index in sharded.database[name].list_indexes():
            if index.get("unique"):
                assert list(index["key"])[: len(key)] == list(key)
                unique += 1
    assert unique == 1


async def test_messages_of_before_it_was_sharded_are_found_while_and_after_they_are_noted(
    watch: Watch, sharded: Api
) -> None:
    alice, bob = await sharded.create_users("alice", "bob")
    old = (await sharded.send(alice, bob, "old", idempotencyKey="k"))["message"]
    await sharded.wait_until_idle()
    sharded.database[ORIGINS].delete_many({})
    store = sharded.services.app.store
    store.messages.origins._filled = False

    async def find() -> Any:
        return (await sharded.data(bob, MESSAGE, id=old["id"]))["message"]

    watch.untargeted.clear()
    assert (await find())["seq"] == old["seq"]
    # Not divided yet, so to one shard.
    assert watch.untargeted
    assert await store.messages.origins.fill() > 0
    assert await store.messages.origins.fill() == 0
    watch.untargeted.clear()
    assert (await find())["seq"] == old["seq"]
    assert await sharded.data(bob, MESSAGE, id="m_78") == {"message": None}
    assert watch.untargeted == []


async def test_groups_made_one_after_the_other_do_not_lie_together(sharded: Api) -> None:
    users = await sharded.create_users("alice", "bob", "carol")
    groups = await gather_all(*(sharded.create_group(*users) for _ in range(24)))
    assert all(kind_of(group) for group in groups)
    assert len({group[:4] for group in groups}) > 12
