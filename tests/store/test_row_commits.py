"""User transactions that are committed at the same time share writes, and each fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from store.base import group_commit
from store.base.errors import Fenced, NotAttempted, Unreachable
from store.mongo.client import Mongo
from store.mongo.collections import RECEIPTS, SESSIONS
from store.mongo.writes import Update, Write
from store.sessions.fields import FENCE
from store.sessions.row_commits import RowCommits
from tests.waiting import TIMEOUT_SECONDS


@pytest.fixture
async def mongo(mongo_url: str, mongo_database_name: str) -> AsyncIterator[Mongo]:
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.insert_many(SESSIONS, [{"_id": f"u{number} c", FENCE: 1} for number in range(20)])
    yield mongo
    await mongo.close()


@pytest.fixture(autouse=True)
def _no_write_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each batch wait for the one before, even if this process pauses. Tests of slow writes set another time."""
    monkeypatch.setattr(group_commit, "SLOW_SECONDS", 600.0)


@pytest.fixture
def commits(mongo: Mongo) -> RowCommits:
    return RowCommits(mongo)


def _row(number: int, fence: int, value: int, *, upsert: bool = False) -> Update:
    query = {"_id": f"u{number} c", "$or": [{FENCE: {"$exists": False}}, {FENCE: {"$lte": fence}}]}
    return Update(query, {"$set": {"p": value, FENCE: fence}}, upsert=upsert)


async def _values(mongo: Mongo) -> dict[int, int]:
    rows = await mongo.find(SESSIONS, {"p": {"$exists": True}})
    return {int(row["_id"].split()[0][1:]): row["p"] for row in rows}


def _while_busy(mongo: Mongo, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Hold the first write until the event is set, so that all others have to wait for the next batch."""
    write, go_on, calls = mongo.write, asyncio.Event(), list[object]()

    async def held(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            await go_on.wait()
        return await write(*args)

    monkeypatch.setattr(mongo, "write", held)
    return go_on


async def _outcomes(*work: Any) -> Sequence[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


async def test_transactions_that_wait_share_one_round_trip(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = _while_busy(mongo, monkeypatch)
    mark = [Write.inserts(RECEIPTS, [{"_id": "the same mark"}])]
    running = [asyncio.create_task(commits.commit(2, [_row(0, 2, 0)], mark))]
    await asyncio.sleep(0.001)
    running += [asyncio.create_task(commits.commit(2, [_row(n, 2, n)], mark)) for n in range(1, 20)]
    await asyncio.sleep(0.001)
    before = mongo.trips
    go_on.set()
    await asyncio.gather(*running)
    assert mongo.trips - before == 2
    assert await _values(mongo) == {n: n for n in range(20)}
    assert len(await mongo.find(RECEIPTS, {})) == 1


async def test_a_transaction_that_is_fenced_out_fails_alone(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mongo.update_one(SESSIONS, {"_id": "u3 c"}, {"$set": {FENCE: 9}})
    await mongo.update_one(SESSIONS, {"_id": "u4 c"}, {"$set": {FENCE: 9}})
    go_on = _while_busy(mongo, monkeypatch)
    rows = {n: [_row(n, 2, n, upsert=n == 4)] for n in range(1, 7)} | {7: [_row(99, 2, 7)]}
    running = [asyncio.create_task(commits.commit(2, row, [])) for row in rows.values()]
    await asyncio.sleep(0.01)
    go_on.set()
    outcomes = dict(zip(rows, await _outcomes(*running), strict=True))
    # 3 and the upsert 4 met a later holder's fence; 7 has no row.
    assert {n for n, outcome in outcomes.items() if isinstance(outcome, Fenced)} == {3, 4, 7}
    assert all(outcomes[n] is None for n in (1, 2, 5, 6))
    assert await _values(mongo) == {n: n for n in (1, 2, 5, 6)}


async def test_a_lone_transaction_that_is_fenced_out_fails(mongo: Mongo, commits: RowCommits) -> None:
    with pytest.raises(Fenced):
        await commits.commit(0, [_row(1, 0, 5)], [])
    assert await _values(mongo) == {}


async def test_a_write_that_cannot_be_stored_fails_its_transaction_only(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = _while_busy(mongo, monkeypatch)
    rows = [_row(1, 2, 1), _row(2, 2, 2), _row(3, 2, object()), _row(4, 2, 4)]  # type: ignore[arg-type]
    running = [asyncio.create_task(commits.commit(2, [row], [])) for row in rows]
    await asyncio.sleep(0.01)
    go_on.set()
    outcomes = await _outcomes(*running)
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, False, True, False]
    assert await _values(mongo) == {1: 1, 2: 2, 4: 4}


async def test_a_write_is_repeated_until_it_is_confirmed(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = mongo.write, [Unreachable("an election"), Unreachable("still")]

    async def fail_twice(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return await write(*args)

    monkeypatch.setattr(mongo, "write", fail_twice)
    await commits.commit(2, [_row(1, 2, 1)], [])
    assert await _values(mongo) == {1: 1}


async def test_without_a_primary_nothing_is_repeated(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[object]()

    async def refuse(*args: Any) -> Any:
        calls.append(args)
        raise NotAttempted("no primary")

    monkeypatch.setattr(mongo, "write", refuse)
    with pytest.raises(NotAttempted):
        await commits.commit(2, [_row(1, 2, 1)], [])
    assert len(calls) == 1


async def test_a_cancelled_transaction_that_waits_is_not_written(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = _while_busy(mongo, monkeypatch)
    first = asyncio.create_task(commits.commit(2, [_row(1, 2, 1)], []))
    await asyncio.sleep(0.001)
    waiting, last = (asyncio.create_task(commits.commit(2, [_row(n, 2, n)], [])) for n in (2, 3))
    await asyncio.sleep(0.001)
    waiting.cancel()
    await asyncio.wait([waiting])
    go_on.set()
    await asyncio.gather(first, last)
    assert await _values(mongo) == {1: 1, 3: 3}


async def test_a_slow_write_does_not_delay_the_next_batch(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "SLOW_SECONDS", 0.01)
    go_on = _while_busy(mongo, monkeypatch)
    slow = asyncio.create_task(commits.commit(2, [_row(1, 2, 1)], []))
    await asyncio.sleep(0.001)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await commits.commit(2, [_row(2, 2, 2)], [])
    assert await _values(mongo) == {2: 2}
    go_on.set()
    await slow
    assert await _values(mongo) == {1: 1, 2: 2}


async def test_a_cancelled_transaction_ends_when_nothing_of_it_is_written_any_more(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = _while_busy(mongo, monkeypatch)
    running = asyncio.create_task(commits.commit(2, [_row(1, 2, 1)], []))
    await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.wait([running], timeout=0.01)
    assert not running.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await _values(mongo) == {1: 1}


async def test_a_cancelled_transaction_is_not_repeated(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[object]()

    async def fail(*args: Any) -> Any:
        calls.append(args)
        raise Unreachable("an election")

    monkeypatch.setattr(mongo, "write", fail)
    running = asyncio.create_task(commits.commit(2, [_row(1, 2, 1)], []))
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    count = len(calls)
    await asyncio.sleep(0.3)
    assert len(calls) == count


async def test_a_write_that_is_interrupted_is_no_success(
    mongo: Mongo, commits: RowCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    _while_busy(mongo, monkeypatch)
    running = asyncio.create_task(commits.commit(2, [_row(1, 2, 1)], []))
    await asyncio.sleep(0.001)
    await commits._queue.close()
    with pytest.raises(Unreachable):
        await running
