"""The unique index of idempotency keys, on data that does not fit it."""

from __future__ import annotations

import pytest
from pymongo.errors import DuplicateKeyError

from store.base.ids import ConversationId, MessageId, UserId
from store.deployment.sharding import shard
from store.messages.key_owners import KeyOwners
from store.messages.message import Message, MessageKind
from store.mongo import indexes
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, at_place
from store.mongo.index_fields import BY_KEY
from store.mongo.indexes import ensure_indexes


def _row(number: int, key: str) -> Document:
    return {"_id": number, "c": "p_a_b", "b": 0, "s": number, "u": "a", "ik": key}


async def test_repeated_keys_are_left_to_their_newest_messages(mongo_url: str, mongo_database_name: str) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    rows = [_row(3, "twice"), _row(1, "twice"), _row(2, "once"), _row(4, "twice") | {"u": "b"}]
    await mongo.insert_many(MESSAGES, rows)
    for _ in range(2):
        await ensure_indexes(mongo)
    released = {row["_id"]: row["ir"] for row in await mongo.find(MESSAGES, {"ir": {"$exists": True}})}
    assert released == {1: 1}
    outcome = await mongo._database[MESSAGES].index_information()
    assert outcome["u_1_ik_1_ir_1"]["unique"]
    await mongo.close()


async def test_many_repeated_keys_are_found_in_pages(
    mongo_url: str, mongo_database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one answer of MongoDB can have; one key fills more than a page."""
    monkeypatch.setattr(indexes, "KEYS_PER_PAGE", 1_000)
    mongo = Mongo(mongo_url, mongo_database_name)
    keys = [f"k{number}" for number in range(10_001)] * 2 + ["k5000"] * 3_000 + ["once"]
    rows = [_row(number, key) for number, key in enumerate(keys)]
    rows += [_row(len(rows) + number, "k5000") | {"u": f"b{number}"} for number in range(3_000)]
    await mongo.insert_many(MESSAGES, rows)
    await ensure_indexes(mongo)
    kept = await mongo.find(MESSAGES, {"u": "a", "ir": None}, projection={"ik": 1})
    assert sorted(row["ik"] for row in kept) == sorted(set(keys))
    newest = {key: number for number, key in enumerate(keys)}
    assert {row["ik"]: row["_id"] for row in kept} == newest
    assert len(await mongo.find(MESSAGES, {"ir": {"$exists": True}})) == len(keys) - len(newest)
    await mongo.close()


async def test_two_messages_at_one_place_prevent_the_indexes(mongo_url: str, mongo_database_name: str) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.insert_many(MESSAGES, [_row(1, "a"), _row(2, "b") | {"s": 1}])
    with pytest.raises(DuplicateKeyError):
        await ensure_indexes(mongo)
    await mongo.close()


async def test_repeated_keys_are_found_without_reading_messages(mongo_url: str, mongo_database_name: str) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.insert_many(MESSAGES, [_row(number, str(number)) for number in range(5)])
    await mongo.ensure_indexes(MESSAGES, [indexes.KEYS])
    for after in (indexes.FIRST_KEY, indexes.keys_after("a", "2")):
        found = mongo._database[MESSAGES].find(after, {"_id": 0, "u": 1, "ik": 1}).sort(BY_KEY).hint(BY_KEY)
        plan = str((await found.explain())["queryPlanner"]["winningPlan"])
        assert "FETCH" not in plan
        assert "COLLSCAN" not in plan
        assert "'SORT'" not in plan
    await mongo.close()


@pytest.mark.parametrize(("is_sharded", "useless"), [(False, "u_1_ik_1"), (True, "u_1_ik_1_ir_1")])
async def test_the_index_of_an_earlier_version_or_of_a_replica_set_is_dropped(
    mongo_url: str, mongo_database_name: str, monkeypatch: pytest.MonkeyPatch, is_sharded: bool, useless: str
) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    monkeypatch.setattr(Mongo, "is_sharded", not is_sharded)
    await ensure_indexes(mongo)
    assert useless in await mongo._database[MESSAGES].index_information()
    monkeypatch.setattr(Mongo, "is_sharded", is_sharded)
    for _ in range(2):
        await ensure_indexes(mongo)
        assert useless not in await mongo._database[MESSAGES].index_information()
    await mongo.close()


@pytest.mark.parametrize("is_sharded", [False, True])
async def test_owners_of_keys_are_found_by_an_index(
    mongo_url: str, mongo_database_name: str, monkeypatch: pytest.MonkeyPatch, is_sharded: bool
) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.ping()
    monkeypatch.setattr(Mongo, "is_sharded", is_sharded)
    await ensure_indexes(mongo)
    message = Message(
        MessageId(1), ConversationId("p_a_b"), UserId("a"), MessageKind.TEXT, "once", 1, 1, key="k", digest="d"
    )
    query = {"$or": [at_place(message.conversation, 1), KeyOwners(mongo).query(message)]}
    plan = str((await mongo._database[MESSAGES].find(query).explain())["queryPlanner"]["winningPlan"])
    assert "COLLSCAN" not in plan
    assert "'ik'" in plan
    await mongo.close()


async def test_sharding_replaces_the_index_by_one_that_begins_with_the_shard_key(
    mongo_url: str, mongo_database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    await ensure_indexes(mongo)

    async def run_nothing(_mongo: Mongo, _command: Document) -> Document:
        return {"ok": 1}

    monkeypatch.setattr(Mongo, "is_sharded", True)
    monkeypatch.setattr(Mongo, "run_admin", run_nothing)
    for _ in range(2):
        await shard(mongo, mongo_database_name)
        found = await mongo._database[MESSAGES].index_information()
        unique = [[name for name, _ in index["key"]] for index in found.values() if index.get("unique")]
        assert all(names[:2] == ["c", "b"] for names in unique)
        assert ["c", "b", "u", "ik", "ir"] in unique
    await mongo.close()
