"""The unique index of idempotency keys, on data that does not fit it."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, MessageId, UserId
from store.deployment.sharding import shard
from store.messages.key_owners import KeyOwners
from store.messages.message import Message, MessageKind
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, at_place
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
        indexes = await mongo._database[MESSAGES].index_information()
        unique = [[name for name, _ in index["key"]] for index in indexes.values() if index.get("unique")]
        assert all(names[:2] == ["c", "b"] for names in unique)
        assert ["c", "b", "u", "ik", "ir"] in unique
    await mongo.close()
