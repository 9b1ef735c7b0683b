"""Shards join a cluster and are replaced: the data of a new one counts, that of a replaced one does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from store.base.clock import DeploymentClock, SystemClock
from store.base.errors import Unreachable
from store.build import build_store
from store.deployment.lost_notes import LostNotes
from store.deployment.reach_times import ReachTimes
from store.deployment.redis_generations import Generations
from store.mongo.client import Mongo
from store.redis.admission import ClusterReport, RedisIdentity
from store.redis.cache import Cache
from store.redis.keys import SLOTS
from store.scripts import read_scripts
from store.store import Store


def _store(mongo: Mongo) -> Store:
    cache = Cache("redis+cluster://127.0.0.1:1", read_scripts)
    return build_store(mongo, cache, DeploymentClock(SystemClock()), data_center=0)


def _generations(mongo: Mongo, *, may_differ_by_slot: bool = False) -> Generations:
    async def answer() -> bool:
        return may_differ_by_slot

    generations = _store(mongo).deployment.generations
    generations.may_differ_by_slot = answer
    return generations


def _shard(
    run: str,
    shard: str,
    slots: Collection[int],
    config_epoch: int = 0,
    *,
    has_loaded_data: bool = False,
    primary_epochs: Mapping[str, int] | None = None,
) -> RedisIdentity:
    """Return the primary of a shard. Its node id is "node of " and the shard id."""

    async def read_report() -> ClusterReport:
        return ClusterReport(slots, primary_epochs or {})

    return RedisIdentity(run, shard, f"node of {shard}", config_epoch, has_loaded_data, read_report)


@pytest.fixture
async def mongo(mongo_url: str, mongo_database_name: str) -> AsyncIterator[Mongo]:
    mongo = Mongo(mongo_url, mongo_database_name)
    await mongo.insert_one("deployment", {"_id": 1})
    yield mongo
    await mongo.close()


async def test_a_shard_is_not_used_before_the_deployment_was_opened(mongo: Mongo) -> None:
    await mongo.delete_one("deployment", {"_id": 1})
    with pytest.raises(Unreachable, match="not opened"):
        await _generations(mongo).admit(RedisIdentity("run a", "first"))


async def test_with_older_servers_a_replaced_shard_begins_a_generation_for_all_slots(mongo: Mongo) -> None:
    one, two = _generations(mongo), _generations(mongo)
    for generations in (one, two):
        await generations.admit(RedisIdentity("run a", "first"))
        await generations.admit(RedisIdentity("run b", "second"))
    assert (one.number, two.number) == (1, 1)
    await one.admit(RedisIdentity("run c", "second"))
    assert one.number == 2
    # This process knows the first shard from the former generation.
    await one.admit(RedisIdentity("run a", "first"))
    await two.admit(RedisIdentity("run c", "second"))
    assert (one.number, two.number) == (2, 2)
    await one.admit(RedisIdentity("run d", "first"))
    assert one.number == 3
    assert not one.differs_by_slot


def _numbers(generations: Generations) -> list[int]:
    """Return the generations of the first slot, one in the middle, and the last one."""
    return [generations._slots.of(slot) for slot in (0, 9_000, SLOTS - 1)]


async def test_a_replaced_shard_begins_a_generation_for_its_slots_only(mongo: Mongo) -> None:
    one, two = _generations(mongo, may_differ_by_slot=True), _generations(mongo, may_differ_by_slot=True)
    halves = range(9_000), range(9_000, SLOTS)
    for generations in (one, two):
        await generations.admit(_shard("run a", "first", halves[0]))
        await generations.admit(_shard("run b", "second", halves[1]))
    replaced_at = time.monotonic()
    await one.admit(_shard("run c", "second", halves[1]))
    # This one notices it too, and begins no other generation.
    await two.admit(_shard("run c", "second", halves[1]))
    for generations in (one, two):
        assert (generations.number, _numbers(generations)) == (2, [1, 2, 2])
        assert generations._shards == {"first": "run a", "second": "run c"}
    # States of other slots may be from before this generation.
    assert one.began_at < replaced_at
    await two.admit(_shard("run d", "first", halves[0]))
    assert (two.number, _numbers(two)) == (3, [3, 2, 2])
    late = _generations(mongo, may_differ_by_slot=True)
    await late.admit(_shard("run c", "second", halves[1]))
    assert (late.number, _numbers(late)) == (3, [3, 2, 2])


async def test_a_slow_answer_of_mongodb_does_not_move_the_beginning_of_a_generation(
    mongo: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a server would forget the caches that became stale while it waited for the answer."""
    await _generations(mongo).admit(RedisIdentity("run a", "first"))
    begun_at = time.monotonic()
    find = mongo.find

    async def find_and_pause(*args: Any, **options: Any) -> Any:
        found = await find(*args, **options)
        await asyncio.sleep(0.5)
        return found

    monkeypatch.setattr(mongo, "find", find_and_pause)
    late = _generations(mongo)
    await late.admit(RedisIdentity("run a", "first"))
    assert late.began_at < begun_at + 0.1


async def test_a_primary_that_was_replaced_does_not_replace_its_successor(mongo: Mongo) -> None:
    generations = _generations(mongo, may_differ_by_slot=True)
    await generations.admit(_shard("run a", "first", range(9), config_epoch=4))
    await generations.admit(_shard("run b", "first", range(9), config_epoch=5))
    with pytest.raises(RedisConnectionError, match="taken over"):
        await generations.admit(_shard("run a", "first", range(9), config_epoch=4))
    assert generations.number == 2
    # It takes over again.
    await generations.admit(_shard("run a", "first", range(9), config_epoch=6))
    assert generations.number == 3


async def test_a_promoted_replica_with_an_unknown_shard_id_begins_a_generation(mongo: Mongo) -> None:
    """The primary died before the replica had learned the shard id."""
    one, two = _generations(mongo, may_differ_by_slot=True), _generations(mongo, may_differ_by_slot=True)
    for generations in (one, two):
        await generations.admit(_shard("run a", "first", range(9_000), primary_epochs={"node of first": 1}))
        # The second shard joins the cluster. Slots move to it with their keys.
        await generations.admit(_shard("run b", "second", range(9_000, SLOTS), config_epoch=2))
    promoted = _shard("run c", "own id", range(9_000), config_epoch=3, has_loaded_data=True)
    for generations in (one, two):
        await generations.admit(promoted)
        assert (generations.number, _numbers(generations)) == (2, [2, 1, 1])
    # The promoted replica stays known in the next generation of all slots.
    await one.begin_next()
    late = _generations(mongo, may_differ_by_slot=True)
    for shard in (promoted, _shard("run b", "second", range(9_000, SLOTS), config_epoch=2)):
        await one.admit(shard)
        await late.admit(shard)
    assert (one.number, late.number, _numbers(one)) == (3, 3, [3, 3, 3])


async def test_primaries_of_the_first_generation_have_no_old_data(mongo: Mongo) -> None:
    """They were replicas earlier. A primary that has been a replica since that generation began may have old data."""
    generations = _generations(mongo, may_differ_by_slot=True)
    epochs = {"node of first": 7, "node of second": 8, "node of third": 9}
    first = _shard("run a", "first", range(9_000), config_epoch=7, has_loaded_data=True, primary_epochs=epochs)
    await generations.admit(first)
    await generations.admit(_shard("run b", "second", range(9_000, SLOTS), config_epoch=8, has_loaded_data=True))
    assert generations.number == 1
    await generations.admit(_shard("run c", "third", range(SLOTS - 9, SLOTS), config_epoch=10, has_loaded_data=True))
    assert (generations.number, _numbers(generations)) == (2, [1, 1, 2])


async def test_primaries_of_the_first_generation_need_no_further_reports(mongo: Mongo) -> None:
    """With 200 nodes a report takes more than a second of CPU, and all admissions wait for it."""
    reports = []

    async def read_report(node: int) -> ClusterReport:
        reports.append(node)
        return ClusterReport(range(9), {f"node {number}": number for number in range(9)})

    generations = _generations(mongo, may_differ_by_slot=True)
    for node in range(9):
        read = partial(read_report, node)
        await generations.admit(RedisIdentity(f"run {node}", f"shard {node}", f"node {node}", node, True, read))
    assert generations.number == 1
    assert reports == [0]


async def test_a_shard_that_a_server_of_the_last_release_adds_begins_no_generation(mongo: Mongo) -> None:
    """The other server adds the shard, with the same run id, while this server reads the report."""
    generations = _generations(mongo)
    await generations.admit(_shard("run a", "first", range(9_000)))

    async def read_report() -> ClusterReport:
        await mongo.update_one("deployment", {"_id": 1, "gen": 1}, {"$set": {"runs.second": "run b"}})
        return ClusterReport(range(9_000, SLOTS))

    await generations.admit(RedisIdentity("run b", "second", "node of second", 2, True, read_report))
    assert generations.number == 1


async def test_a_server_of_an_earlier_version_ends_the_generations_of_slots(mongo: Mongo) -> None:
    generations = _generations(mongo, may_differ_by_slot=True)
    await generations.admit(_shard("run a", "first", range(9)))
    await generations.admit(_shard("run b", "first", range(9)))
    assert generations.differs_by_slot
    # As a server of an earlier version begins one: it leaves the field `slots` as it is.
    change = {"$inc": {"gen": 1}, "$set": {"runs": {"first": "run c"}}}
    await mongo.update_one("deployment", {"_id": 1}, change)
    await generations.admit(_shard("run c", "first", range(9)))
    assert not generations.differs_by_slot
    assert _numbers(generations) == [3, 3, 3]


async def test_generations_of_slots_end_if_only_older_servers_have_run(mongo: Mongo) -> None:
    """They have used the newest generation for all slots, and nobody was there to end the others."""
    generations = _generations(mongo, may_differ_by_slot=True)
    await generations.admit(_shard("run a", "first", range(9)))
    await generations.admit(_shard("run b", "first", range(9)))
    assert _numbers(generations) == [2, 1, 1]
    await mongo.update_one("deployment", {"_id": 1}, {"$inc": {"seen": 60_000}})
    for _ in range(2):
        generations = _generations(mongo, may_differ_by_slot=True)
        await generations.admit(_shard("run b", "first", range(9)))
        assert _numbers(generations) == [2, 2, 2]
        row = await generations._read_row()
        await ReachTimes(mongo, LostNotes()).note_reached(row, "cluster", 0, is_whole=True)
    assert "slots" not in await generations._read_row()


async def test_too_many_stale_caches_begin_a_generation_for_the_slots_of_users(mongo: Mongo) -> None:
    generations = _generations(mongo, may_differ_by_slot=True)
    await generations.admit(_shard("run a", "first", range(SLOTS)))
    await generations.begin_next({0, 9_000})
    assert (generations.number, _numbers(generations)) == (2, [2, 2, 1])
    await generations.begin_next()
    await generations.admit(_shard("run a", "first", range(SLOTS)))
    assert (generations.number, _numbers(generations)) == (3, [3, 3, 3])
