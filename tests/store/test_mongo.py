"""The one module that calls MongoDB's driver behaves the same with both drivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pymongo import IndexModel, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from store.base.errors import Unreachable
from store.mongo.client import Mongo
from store.mongo.writes import Update, Write
from tests.waiting import TIMEOUT_SECONDS


@pytest.fixture(params=["pymongo", "motor"])
async def mongo(request: pytest.FixtureRequest, mongo_url: str, mongo_database_name: str) -> AsyncIterator[Mongo]:
    driver: Literal["pymongo", "motor"] = request.param
    mongo = Mongo(mongo_url, mongo_database_name, driver)
    yield mongo
    await mongo.close()


async def test_documents_are_found_sorted_limited_and_projected(mongo: Mongo) -> None:
    await mongo.insert_many("things", [{"_id": n, "even": n % 2 == 0} for n in range(10)])
    rows = await mongo.find("things", {"even": True}, projection={"_id": 1}, sort=[("_id", -1)], limit=2)
    assert rows == [{"_id": 8}, {"_id": 6}]
    assert await mongo.find_one("things", {}, sort=[("_id", -1)]) == {"_id": 9, "even": False}
    assert await mongo.find_one("things", {"_id": 10}) is None
    assert await mongo.aggregate("things", [{"$group": {"_id": "$even", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]) == [
        {"_id": False, "n": 5},
        {"_id": True, "n": 5},
    ]


async def test_more_documents_than_one_batch_holds_are_all_found(mongo: Mongo) -> None:
    await mongo.insert_many("things", [{"_id": n} for n in range(10_500)])
    assert len(await mongo.find("things", {})) == 10_500


async def test_a_batch_stores_what_does_not_collide_and_names_the_rest(mongo: Mongo) -> None:
    await mongo.insert_one("things", {"_id": 1})
    with pytest.raises(BulkWriteError) as raised:
        await mongo.insert_many("things", [{"_id": 0}, {"_id": 1}, {"_id": 2}])
    assert [failure["index"] for failure in raised.value.details["writeErrors"]] == [1]
    assert [row["_id"] for row in await mongo.find("things", {}, sort=[("_id", 1)])] == [0, 1, 2]
    with pytest.raises(DuplicateKeyError):
        await mongo.insert_one("things", {"_id": 1})


async def test_updates_return_their_match_counts(mongo: Mongo) -> None:
    assert await mongo.update_one("things", {"_id": 1}, {"$set": {"a": 1}}) == 0
    await mongo.update_one("things", {"_id": 1}, {"$max": {"a": 5}}, upsert=True)
    assert await mongo.update_one("things", {"_id": 1}, {"$max": {"a": 3}}) == 1
    await mongo.bulk_write(
        "things", [UpdateOne({"_id": 1}, {"$inc": {"b": 1}}), UpdateOne({"_id": 2}, {"$set": {"b": 9}}, upsert=True)]
    )
    assert await mongo.find_one_and_update("things", {"_id": 1}, {"$set": {"a": 0}}) == {"_id": 1, "a": 5, "b": 1}
    assert await mongo.find_one_and_update("things", {"_id": 3}, {"$set": {"a": 0}}, upsert=True) is None
    assert await mongo.find_one_and_update("things", {"_id": 3}, {"$inc": {"a": 2}}, after=True) == {"_id": 3, "a": 2}
    assert await mongo.find_one_and_update("things", {"_id": 4}, {"$inc": {"a": 2}}, after=True) is None


async def test_a_transaction_that_collides_stores_nothing(mongo: Mongo) -> None:
    await mongo.ensure_indexes("things", [IndexModel([("a", 1)], unique=True)])
    await mongo.insert_one("things", {"_id": 1, "a": 1})

    async def work(session: Any) -> None:
        await mongo.insert_one("things", {"_id": 2, "a": 2}, session=session)
        await mongo.insert_many("things", [{"_id": 3, "a": 1}], session=session)

    with pytest.raises(BulkWriteError):
        await mongo.transaction(work)
    assert [row["_id"] for row in await mongo.find("things", {})] == [1]


async def test_calls_made_together_count_as_one_round_trip(mongo: Mongo) -> None:
    await mongo.insert_one("things", {"_id": 1})
    before = mongo.trips
    both_under_way = asyncio.Barrier(2)

    async def find() -> Any:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await both_under_way.wait()
        return await mongo.find("things", {})

    assert await mongo.gather(find(), find()) == [[{"_id": 1}]] * 2
    assert mongo.trips == before + 1


async def test_a_missing_server_is_unreachable() -> None:
    mongo = Mongo("mongodb://127.0.0.1:1/", "nothing", timeout_ms=400)
    with pytest.raises(Unreachable):
        await mongo.find("things", {})
    await mongo.close()


@pytest.mark.parametrize("driver", ["pymongo", "motor"])
async def test_a_transaction_that_meets_a_locked_row_ends_when_any_call_would(
    mongo_url: str, mongo_database_name: str, driver: Literal["pymongo", "motor"]
) -> None:
    hasty, holder = (
        Mongo(mongo_url, mongo_database_name, driver, timeout_ms=1_000),
        Mongo(mongo_url, mongo_database_name),
    )
    await holder.insert_one("things", {"_id": 1})
    locked, go_on = asyncio.Event(), asyncio.Event()

    async def hold(session: Any) -> None:
        await holder.bulk_write("things", [UpdateOne({"_id": 1}, {"$set": {"a": 1}})], session=session)
        locked.set()
        await go_on.wait()

    async def meet(session: Any) -> None:
        await hasty.bulk_write("things", [UpdateOne({"_id": 1}, {"$set": {"a": 2}})], session=session)

    holding = asyncio.create_task(holder.transaction(hold))
    await locked.wait()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        with pytest.raises(Unreachable):
            await hasty.transaction(meet)
    go_on.set()
    await holding
    assert await holder.find_one("things", {}) == {"_id": 1, "a": 1}
    await hasty.close()
    await holder.close()


async def test_writes_without_retries_name_collisions_and_do_the_rest(mongo: Mongo) -> None:
    await mongo.insert_each("things", [{"_id": n} for n in range(150)])
    assert await mongo.insert_each("things", [{"_id": n} for n in range(140, 290)]) == list(range(10))
    assert len(await mongo.find("things", {})) == 290
    await mongo.write(
        [Write.updates("things", [Update({"_id": n}, {"$set": {"a": n}}, upsert=True) for n in range(1_500)])]
    )
    assert [row["_id"] for row in await mongo.find("things", {"a": {"$gte": 1_498}}, sort=[("_id", 1)])] == [
        1_498,
        1_499,
    ]


async def test_an_update_that_collides_or_is_refused_is_not_reported_as_done(mongo: Mongo) -> None:
    await mongo.insert_each("things", [{"_id": 1, "a": "text"}])
    colliding = Update({"_id": 1, "a": "other"}, {"$set": {"b": 1}}, upsert=True)
    with pytest.raises(Unreachable):
        await mongo.write([Write.updates("things", [Update({"_id": 1}, {"$inc": {"a": 1}})])])
    with pytest.raises(Unreachable):
        await mongo.write([Write.updates("things", [colliding])])
    other = Update({"_id": 1}, {"$set": {"b": 2}})
    (outcome,) = await mongo.write([Write.updates("things", [colliding, other], may_collide=True)])
    assert outcome == (1, [0])


async def test_the_first_request_long_after_the_start_is_sent(mongo_url: str, mongo_database_name: str) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    mongo._primary._grace_seconds = 0.2
    await asyncio.sleep(0.3)
    assert await mongo.find_one("things", {}) is None
    await mongo.close()


async def test_documents_are_read_as_of_one_moment(mongo: Mongo, monkeypatch: pytest.MonkeyPatch) -> None:
    await mongo.insert_many("things", [{"_id": number} for number in range(3)])
    await mongo.insert_one("others", {"_id": "a"})
    read = [("things", {"_id": {"$gt": 0}}), ("others", {}), ("nothing", {})]
    assert await mongo.find_as_of_one_moment(*read) == [[{"_id": 1}, {"_id": 2}], [{"_id": "a"}], []]
    start_session, failures = mongo._client.start_session, [246, 246]

    def fail_first(**options: Any) -> Any:
        if failures:
            raise OperationFailure("the collection has changed", failures.pop())
        return start_session(**options)

    monkeypatch.setattr(mongo, "_client", SimpleNamespace(start_session=fail_first, close=mongo._client.close))
    assert len(await mongo.find_as_of_one_moment(*read)) == 3
    failures.append(13)
    with pytest.raises(Unreachable):
        await mongo.find_as_of_one_moment(*read)
