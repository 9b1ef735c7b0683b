"""Reads that concurrent calls share: each query begins after the calls that it answers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from store.mongo import joined_reads
from store.mongo.client import Document, Mongo
from store.mongo.joined_reads import JoinedReads

COLLECTION = "things"
TIMEOUT_SECONDS = 20
"""A call that takes longer fails the test."""


class Database:
    """Documents whose values change. A query takes what is there when it begins, and ends when it is released."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.queries: list[set[str]] = []
        self.releases: list[asyncio.Future[None]] = []

    async def find_as_of_one_moment(self, query: tuple[str, dict[str, Any]]) -> list[list[Document]]:
        collection, ids = query[0], query[1]["_id"]["$in"]
        assert collection == COLLECTION and len(ids) == len(set(ids))
        found: list[Document] = [{"_id": id, "n": self.rows[id]} for id in ids if id in self.rows]
        self.queries.append(set(ids))
        self.releases.append(asyncio.get_running_loop().create_future())
        await self.releases[-1]
        return [found]


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def reads(database: Database) -> JoinedReads:
    return JoinedReads(cast(Mongo, database), COLLECTION)


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _call(reads: JoinedReads, *ids: str, group: str = "g") -> asyncio.Task[dict[str, Document]]:
    async def find() -> dict[str, Document]:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await reads.find(group, ids)

    return asyncio.create_task(find())


async def test_calls_of_one_turn_share_a_query_and_later_ones_the_next(database: Database, reads: JoinedReads) -> None:
    database.rows = {"a": 1, "b": 1}
    first, second = _call(reads, "a", "x"), _call(reads, "a", "b")
    await _turns()
    assert database.queries == [{"a", "b", "x"}]
    database.rows = {"a": 2, "b": 2}
    # The query that runs began before the change, so it must not answer these.
    third, fourth = _call(reads, "a"), _call(reads, "b")
    await _turns()
    assert len(database.queries) == 1
    database.releases[0].set_result(None)
    await _turns()
    assert database.queries[1:] == [{"a", "b"}]
    database.releases[1].set_result(None)
    assert await first == {"a": {"_id": "a", "n": 1}}
    assert await second == {"a": {"_id": "a", "n": 1}, "b": {"_id": "b", "n": 1}}
    assert (await third, await fourth) == ({"a": {"_id": "a", "n": 2}}, {"b": {"_id": "b", "n": 2}})
    assert await reads.find("g", ()) == {} and len(database.queries) == 2


async def test_groups_do_not_wait_for_each_other(database: Database, reads: JoinedReads) -> None:
    calls = [_call(reads, "a", group="one"), _call(reads, "a", group="other")]
    await _turns()
    assert database.queries == [{"a"}, {"a"}]
    for release in database.releases:
        release.set_result(None)
    assert await asyncio.gather(*calls) == [{}, {}]
    # Nothing is kept of groups without calls.
    del calls
    await _turns()
    assert not list(reads._queues)


async def test_a_query_is_bounded(database: Database, reads: JoinedReads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_reads, "_MOST_IDS", 3)
    database.rows = {f"i{number}": number for number in range(7)}
    large, small = _call(reads, *database.rows), _call(reads, "i0")
    for number in range(3):
        await _turns()
        database.releases[number].set_result(None)
    assert set(await large) == set(database.rows) and set(await small) == {"i0"}
    assert [len(query) for query in database.queries] == [3, 3, 2]


async def test_a_failure_reaches_the_calls_of_its_query_only(database: Database, reads: JoinedReads) -> None:
    failing = [_call(reads, "a"), _call(reads, "b")]
    await _turns()
    later = _call(reads, "a")
    await _turns()
    database.releases[0].set_exception(ValueError("lost"))
    for call in failing:
        with pytest.raises(ValueError, match="lost"):
            await call
    await _turns()
    database.releases[1].set_result(None)
    assert await later == {}


async def test_a_cancelled_call_does_not_stop_the_others(database: Database, reads: JoinedReads) -> None:
    database.rows = {"a": 1}
    cancelled, other = _call(reads, "a"), _call(reads, "a")
    await _turns()
    cancelled.cancel()
    await _turns()
    database.releases[0].set_result(None)
    assert (await other)["a"]["n"] == 1 and cancelled.cancelled()
