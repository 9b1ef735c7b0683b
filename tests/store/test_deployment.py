"""A worker number belongs to one process at a time, and a Redis that lost its data is detected."""

from __future__ import annotations

import asyncio

import pytest

from store.base.clock import DeploymentClock
from store.base.errors import Unreachable
from store.base.snowflakes import WORKERS, Snowflakes
from store.deployment.deployment import Deployment
from store.deployment.worker_numbers import LEASE_MS, LEASES
from store.mongo.collections import DEPLOYMENT
from store.redis.cache import Call
from store.store import Store
from tests.clock import ManualClock


def _process(store: Store, clock: ManualClock) -> tuple[Deployment, Snowflakes]:
    deployment_clock = DeploymentClock(clock)
    return Deployment(store.mongo, store.cache, store.keys, deployment_clock), Snowflakes(deployment_clock, 5)


async def _outlast_lease(store: Store, number: int) -> None:
    """Let the lease of a process end, by MongoDB's own time."""
    assert await store.mongo.update_one(LEASES, {"_id": 5 * WORKERS + number}, {"$inc": {"until": -LEASE_MS - 1}})


async def test_every_process_gets_its_own_number_and_keeps_it(store: Store) -> None:
    clock = ManualClock(1_795_000_000_000)
    processes = [_process(store, clock) for _ in range(WORKERS)]
    for deployment, ids in processes:
        await deployment.worker_numbers.lease(ids, 5)
    assert {ids.worker for _, ids in processes} == set(range(WORKERS))
    late, late_ids = _process(store, clock)
    with pytest.raises(Unreachable):
        await late.worker_numbers.lease(late_ids, 5)
    for deployment, ids in processes:
        number = ids.worker
        await deployment.worker_numbers.lease(ids, 5)
        assert ids.worker == number


async def test_a_number_that_was_not_renewed_goes_to_another_process(store: Store) -> None:
    clock = ManualClock(1_795_000_000_000)
    paused, paused_ids = _process(store, clock)
    await paused.worker_numbers.lease(paused_ids, 5)
    paused_ids.next()
    clock.ms += LEASE_MS + 1
    await _outlast_lease(store, paused_ids.worker)
    other, other_ids = _process(store, clock)
    await other.worker_numbers.lease(other_ids, 5)
    assert other_ids.worker == paused_ids.worker
    with pytest.raises(Unreachable):
        paused_ids.next()
    with pytest.raises(Unreachable):
        await paused.worker_numbers.lease(paused_ids, 5)
    await paused.worker_numbers.lease(paused_ids, 5)
    assert paused_ids.worker != other_ids.worker


async def test_a_returned_number_is_free_at_once(store: Store) -> None:
    clock = ManualClock(1_795_000_000_000)
    one, one_ids = _process(store, clock)
    await one.worker_numbers.lease(one_ids, 5)
    await one.worker_numbers.release(one_ids, 5)
    two, two_ids = _process(store, clock)
    await two.worker_numbers.lease(two_ids, 5)
    assert two_ids.worker == one_ids.worker


async def test_an_emptied_redis_is_a_loss_and_a_first_start_is_not(store: Store) -> None:
    assert store.deployment.redis_lost_at_ms == 0
    epoch = store.deployment.redis_epoch
    await store.deployment.check_redis()
    assert store.deployment.redis_epoch == epoch
    await store.cache.one(Call("DEL", (store.keys.epoch,)))
    await store.deployment.check_redis()
    assert store.deployment.redis_epoch != epoch
    assert store.deployment.redis_lost_at_ms > 0
    other = Deployment(store.mongo, store.cache, store.keys, store.clock)
    await other.open()
    assert other.name == store.deployment.name
    assert other.redis_lost_at_ms == store.deployment.redis_lost_at_ms


async def test_an_epoch_that_another_process_noted_too_late_is_replaced(store: Store) -> None:
    """Otherwise the recovery from the loss begins again and again."""
    deployment, generations = store.deployment, store.deployment.generations
    await store.cache.one(Call("DEL", (store.keys.epoch,)))
    await deployment.check_redis()
    epoch = deployment.redis_epoch
    assert await store.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"epoch": "1-late"}})
    await deployment.check_redis()
    await generations.check()
    assert deployment.redis_epoch == epoch == generations.noted_epoch
    assert generations.recover_from_ms is not None
    await deployment.end_loss_recovery(generations.recover_from_ms, epoch)
    assert not await generations.is_recovering()


async def test_redis_may_lose_everything_again_during_the_check(store: Store) -> None:
    async def lose() -> None:
        for _ in range(600):
            await store.cache.one(Call("DEL", (store.keys.epoch,)))

    async def check() -> None:
        for _ in range(100):
            await store.deployment.check_redis()
            assert store.deployment.redis_epoch

    await asyncio.gather(lose(), *(check() for _ in range(4)))
