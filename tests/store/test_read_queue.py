"""Reads of one user wait for each other. Those of other users, shared reads and writes do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson.errors import InvalidDocument

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.base.request_user import SharedWork, request_user
from store.mongo.client import Mongo
from store.mongo.writes import Write
from store.redis.request_scope import RequestScope

ALICE, BOB = UserId("alice"), UserId("bob")


@pytest.fixture
async def mongo(mongo_url: str, mongo_database_name: str) -> AsyncIterator[Mongo]:
    mongo = Mongo(mongo_url, mongo_database_name, max_reads_per_user=2)
    await mongo.insert_many("things", [{"_id": number} for number in range(3)])
    yield mongo
    await mongo.close()


async def _count(mongo: Mongo, user: UserId | None) -> int:
    with RequestScope(user):
        found, grouped = await mongo.find("things", {}), await mongo.aggregate("things", [{"$match": {}}])
    assert found == grouped
    return len(found)


async def test_reads_of_a_user_wait_for_each_other_and_nothing_else_waits(mongo: Mongo) -> None:
    with RequestScope(ALICE):
        ends = [await mongo.reads.begin() for _ in range(2)]
        waiting = asyncio.create_task(_count(mongo, ALICE))
        await asyncio.sleep(0)
        assert mongo.reads.waiting == 1
        # None of these would end if it waited for the reads of alice.
        await mongo.write([Write.inserts("things", [{"_id": 3}])])
        with SharedWork():
            assert len(await mongo.find("things", {})) == 4
        assert request_user.get() == ALICE
    assert await _count(mongo, BOB) == 4
    assert await _count(mongo, None) == 4
    assert mongo.reads.waiting == 1
    assert ends[0] is not None and ends[1] is not None
    ends[0]()
    assert await waiting == 4
    ends[1]()
    assert (mongo.reads.running, mongo.reads.waiting) == (0, 0)


async def test_a_read_that_is_cancelled_while_it_waits_leaves_the_queue(mongo: Mongo) -> None:
    with RequestScope(ALICE):
        ends = [await mongo.reads.begin() for _ in range(2)]
        waiting = asyncio.create_task(mongo.find("things", {}))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert mongo.reads.waiting == 0
    for end in ends:
        assert end is not None
        end()
    assert await _count(mongo, ALICE) == 3
    assert mongo.reads.running == 0


async def test_a_read_that_fails_leaves_the_queue(mongo: Mongo) -> None:
    with RequestScope(ALICE):
        for _ in range(3):
            with pytest.raises(Unreachable):
                await mongo.find("things", {"_id": {"$nonsense": 1}})
            with pytest.raises(InvalidDocument):
                await mongo.find("things", {1: 2})  # type: ignore[dict-item]
    assert mongo.reads.running == 0


async def test_aggregations_of_a_user_run_one_after_another(mongo: Mongo) -> None:
    with RequestScope(ALICE):
        end = await mongo.reads.begin(is_aggregation=True)
        waiting = [asyncio.create_task(mongo.aggregate("things", [{"$match": {}}])) for _ in range(2)]
        await asyncio.sleep(0)
        assert (mongo.reads.running, mongo.reads.waiting) == (1, 2)
        # Other reads of the user, and aggregations of others, do not wait for it.
        assert len(await mongo.find("things", {})) == 3
    assert await _count(mongo, BOB) == 3
    assert await _count(mongo, None) == 3
    assert mongo.reads.waiting == 2
    waiting[0].cancel()
    assert end is not None
    end()
    assert len(await waiting[1]) == 3
    assert (mongo.reads.running, mongo.reads.waiting) == (0, 0)


async def test_an_aggregation_that_is_cancelled_while_other_reads_run_leaves_both_queues(mongo: Mongo) -> None:
    with RequestScope(ALICE):
        ends = [await mongo.reads.begin() for _ in range(2)]
        waiting = asyncio.create_task(mongo.aggregate("things", [{"$match": {}}]))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for end in ends:
        assert end is not None
        end()
    assert await _count(mongo, ALICE) == 3
    assert (mongo.reads.running, mongo.reads.waiting) == (0, 0)


async def test_a_pause_follows_each_aggregation_of_a_user_with_many(
    mongo: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    original = loop.call_later

    def call_later(delay: float, callback: Any, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        if getattr(callback, "__name__", "") == "leave":
            pauses.append(delay)
        return original(delay, callback, *arguments, **options)

    monkeypatch.setattr(loop, "call_later", call_later)
    with RequestScope(ALICE):
        await mongo.gather(*(mongo.aggregate("things", [{"$match": {}}]) for _ in range(3)))
        assert pauses == []
        await mongo.gather(*(mongo.aggregate("things", [{"$match": {}}]) for _ in range(5)))
    assert len(pauses) == 2 and all(0 < pause <= 0.05 for pause in pauses)
    assert (mongo.reads.running, mongo.reads.waiting) == (0, 0)
