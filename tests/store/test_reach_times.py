"""The row of the deployment says when servers last reached Redis, and since when messages have to be checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from store.deployment import reach_times
from store.deployment.lost_notes import LostNotes
from store.deployment.reach_times import AWAY_AFTER_MS, MAX_DELIVERY_MS, ReachTimes
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.mongo.mongo_clock import MONGO_NOW

RUN = "run"
LONG_AGO_MS = 100_000

Row = dict[str, Any]


@pytest.fixture
async def mongo(mongo_url: str, mongo_database_name: str) -> AsyncIterator[Mongo]:
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.insert_one(DEPLOYMENT, {"_id": 1, "run": RUN})
    yield mongo
    await mongo.close()


async def _read(mongo: Mongo) -> Row:
    (row,) = await mongo.aggregate(DEPLOYMENT, [{"$match": {"_id": 1}}, {"$set": {"now": MONGO_NOW}}])
    return row


async def _set(mongo: Mongo, **ages_ms: int) -> Row:
    """Give times of the row these ages, and return the row."""
    ages = {name: {"$subtract": [MONGO_NOW, age_ms]} for name, age_ms in ages_ms.items()}
    await mongo.update_one(DEPLOYMENT, {"_id": 1}, [{"$set": ages}])
    return await _read(mongo)


def _times(row: Row) -> Row:
    return {name: row[name] for name in ("seen", "noted", "whole", "apart", "mend") if name in row}


async def _become_apart(mongo: Mongo, times: ReachTimes) -> Row:
    """Reach only a part of Redis until the row says that a shard is away, and return the row."""
    async with asyncio.timeout(10):
        while "apart" not in (row := await _read(mongo)):
            await times.note_reached(row, RUN, 0, is_whole=False)
    return row


async def test_all_times_are_written_when_all_of_redis_is_reached(mongo: Mongo) -> None:
    row = await _read(mongo)
    await ReachTimes(mongo, LostNotes()).note_reached(row, RUN, 0, is_whole=True)
    written = _times(await _read(mongo))
    assert written.keys() == {"seen", "noted", "whole"}
    assert min(written.values()) >= row["now"]


async def test_times_of_the_last_second_are_not_written_again(mongo: Mongo) -> None:
    # A slow machine may read the row more than a second later.
    row = await _set(mongo, seen=0, noted=0, whole=0)
    row["now"] = row["seen"] + 1_000
    await ReachTimes(mongo, LostNotes()).note_reached(row, RUN, 0, is_whole=True)
    assert _times(await _read(mongo)) == _times(row)


async def test_nothing_is_written_if_another_redis_is_in_use_meanwhile(mongo: Mongo) -> None:
    row, lost = await _set(mongo, seen=LONG_AGO_MS, whole=LONG_AGO_MS, apart=LONG_AGO_MS), LostNotes()
    lost.add()
    await ReachTimes(mongo, lost).note_reached(row, "another run", 0, is_whole=True)
    assert _times(await _read(mongo)) == _times(row)
    assert lost.find_first_ms(0) is not None


async def test_reaching_a_part_of_redis_does_not_count_as_reaching_all_of_it(mongo: Mongo) -> None:
    row = await _set(mongo, seen=LONG_AGO_MS, whole=LONG_AGO_MS)
    await ReachTimes(mongo, LostNotes()).note_reached(row, RUN, 0, is_whole=False)
    written = _times(await _read(mongo))
    assert written["seen"] >= row["now"]
    assert written["whole"] == row["whole"]


async def test_a_shard_is_not_away_when_a_process_first_fails_to_reach_it(mongo: Mongo) -> None:
    row = await _set(mongo, seen=LONG_AGO_MS, whole=LONG_AGO_MS)
    await ReachTimes(mongo, LostNotes()).note_reached(row, RUN, 0, is_whole=False)
    assert "apart" not in await _read(mongo)


async def test_a_shard_is_not_away_while_another_server_reaches_it(
    mongo: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, other = ReachTimes(mongo, LostNotes()), ReachTimes(mongo, LostNotes())
    row = await _set(mongo, seen=LONG_AGO_MS, whole=LONG_AGO_MS)
    await times.note_reached(row, RUN, 0, is_whole=False)
    monkeypatch.setattr(reach_times, "AWAY_AFTER_MS", 1)
    await asyncio.sleep(0.01)
    await other.note_reached(row, RUN, 0, is_whole=True)
    # This row was read before the other process reached the shard.
    await times.note_reached(row, RUN, 0, is_whole=False)
    assert "apart" not in await _read(mongo)


async def test_a_shard_that_no_server_reaches_is_away_since_it_was_last_reached(
    mongo: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach_times, "AWAY_AFTER_MS", 1)
    before = await _set(mongo, seen=LONG_AGO_MS, whole=LONG_AGO_MS)
    row = await _become_apart(mongo, ReachTimes(mongo, LostNotes()))
    assert row["apart"] == row["whole"] == before["whole"]
    assert "mend" not in row


async def test_messages_are_checked_when_a_shard_is_reached_again(
    mongo: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach_times, "AWAY_AFTER_MS", 1)
    times = ReachTimes(mongo, LostNotes())
    await _set(mongo, seen=LONG_AGO_MS, whole=LONG_AGO_MS)
    row = await _become_apart(mongo, times)
    await times.note_reached(row, RUN, 0, is_whole=True)
    written = _times(await _read(mongo))
    assert written["mend"] == row["apart"] - MAX_DELIVERY_MS
    assert "apart" not in written
    # A later failure begins a new time without the shard.
    row = await _set(mongo, whole=LONG_AGO_MS)
    await asyncio.sleep(0.01)
    await times.note_reached(row, RUN, 0, is_whole=False)
    assert "apart" not in await _read(mongo)


@pytest.mark.parametrize("mend_age_ms", [2 * LONG_AGO_MS, 0])
async def test_a_running_recovery_does_not_end_a_new_one(mongo: Mongo, mend_age_ms: int) -> None:
    row = await _set(mongo, seen=0, whole=0, apart=LONG_AGO_MS, mend=mend_age_ms)
    await ReachTimes(mongo, LostNotes()).note_reached(row, RUN, 0, is_whole=True)
    mend = (await _read(mongo))["mend"]
    assert mend == min(row["mend"] - 1, row["apart"] - MAX_DELIVERY_MS)


async def test_messages_whose_notes_this_process_lost_are_checked_once(mongo: Mongo) -> None:
    row, lost = await _set(mongo, seen=0, whole=0), LostNotes()
    lost.set_time(row["now"] - LONG_AGO_MS, time.monotonic() - LONG_AGO_MS / 1000)
    lost.add()
    times = ReachTimes(mongo, lost)
    # Their recovery needs the shards that are away.
    await times.note_reached(row, RUN, 0, is_whole=False)
    assert "mend" not in await _read(mongo)
    for _ in range(2):
        await times.note_reached(row, RUN, 0, is_whole=True)
        assert (await _read(mongo))["mend"] == row["now"] - LONG_AGO_MS - MAX_DELIVERY_MS
    assert lost.find_first_ms(0) is None


async def test_redis_is_away_if_neither_this_process_nor_another_one_reaches_it(mongo: Mongo) -> None:
    times, now = ReachTimes(mongo, LostNotes()), (await _read(mongo))["now"]
    row: Row = {"now": now, "seen": now - AWAY_AFTER_MS, "asked_at": time.monotonic() + 3_600}
    assert not times.is_away(row)
    times.note_unreachable()
    noted_at = time.monotonic()
    assert times.is_away(row)
    assert not times.is_away(row | {"seen": now - AWAY_AFTER_MS + 1})
    # No server has ever reached it.
    assert not times.is_away({"now": now, "asked_at": row["asked_at"]})
    # The first failure counts.
    await asyncio.sleep(0.01)
    times.note_unreachable()
    assert times.is_away(row | {"asked_at": noted_at + AWAY_AFTER_MS / 4_000})
    assert not times.is_away(row | {"asked_at": noted_at})
    await times.note_reached(await _read(mongo), RUN, 0, is_whole=False)
    assert not times.is_away(row)
