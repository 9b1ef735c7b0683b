"""Sharding of collections."""

from __future__ import annotations

import pytest

from store.deployment.sharding import shard
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES
from store.mongo.sharding import SHARD_KEYS


async def test_sharding_creates_its_indexes_and_may_be_repeated(
    mongo_url: str, mongo_database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    commands: list[Document] = []

    async def tell(_mongo: Mongo, command: Document) -> Document:
        commands.append(command)
        return {"ok": 1}

    monkeypatch.setattr(Mongo, "is_sharded", True)
    # There is no mongos in the tests: only the commands to it count here.
    monkeypatch.setattr(Mongo, "run_admin", tell)
    await mongo.insert_many(MESSAGES, [{"_id": number, "c": "p_a_b", "b": 0, "s": number} for number in range(3)])
    assert [await shard(mongo, mongo_database_name) for _ in range(2)] == [3, 0]
    once: list[Document] = [{"enableSharding": mongo_database_name}]
    once += [{"shardCollection": f"{mongo_database_name}.{name}", "key": key} for name, key in SHARD_KEYS.items()]
    assert commands == [*once, *once]
    for name, key in SHARD_KEYS.items():
        indexes = await mongo._database[name].index_information()
        prefixes = [index["key"][: len(key)] for index in indexes.values()]
        assert list(key.items()) in prefixes or key == {"_id": 1}
    await mongo.close()
