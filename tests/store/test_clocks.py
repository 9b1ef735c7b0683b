"""The servers of a deployment share one time, which never goes back, whatever their machines' clocks do."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from store.base.clock import DeploymentClock, SystemClock
from store.base.snowflakes import WORKERS, Snowflakes
from store.deployment.deployment import Deployment
from store.deployment.worker_numbers import LEASE_MS, LEASES, VALID_MS
from store.mongo.collections import DEPLOYMENT
from store.store import Store
from tests.clock import DAY_MS, START_MS, ManualClock

HOUR_MS = 3_600_000


class ServerView:
    """One server's view of a deployment."""

    def __init__(self, store: Store, machine: ManualClock) -> None:
        self.clock = DeploymentClock(machine)
        self.ids = Snowflakes(self.clock, 5)
        self._deployment = Deployment(store.mongo, store.cache, store.keys, self.clock)

    async def open(self) -> None:
        await self._deployment.open()
        await self.renew()

    async def renew(self) -> None:
        await self._deployment.worker_numbers.lease(self.ids, 5)

    async def close(self) -> None:
        await self._deployment.worker_numbers.release(self.ids, 5)

    @property
    def name(self) -> str:
        return self._deployment.owner

    async def list_ring(self) -> set[str]:
        return set(await self._deployment.worker_numbers.list_ring())


@pytest.fixture
async def blank(store: Store) -> Store:
    """A deployment in which no server has recorded a time yet."""
    await store.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$unset": {"time": ""}})
    return store


async def _opened(store: Store, ms: int) -> tuple[ServerView, ManualClock]:
    machine = ManualClock(ms)
    server = ServerView(store, machine)
    await server.open()
    return server, machine


async def _stored_time(store: Store) -> int:
    row = await store.mongo.find_one(DEPLOYMENT, {"_id": 1})
    assert row is not None
    stored: int = row["time"]
    return stored


# --- within a process


@given(st.lists(st.tuples(st.booleans(), st.integers(-9_000, 9_000)), max_size=40))
def test_time_never_goes_back_and_follows_forward_steps_at_once(steps: list[tuple[bool, int]]) -> None:
    machine = ManualClock()
    clock = DeploymentClock(machine)
    expected = START_MS
    for advances, step in steps:
        if advances:
            clock.advance_to(expected + step)
        else:
            machine.ms += step
        expected += max(0, step)
        assert clock.now_ms() == expected


def test_setting_the_machine_clock_does_not_change_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    assert abs(clock.now_ms() - time.time_ns() // 1_000_000) < 1_000
    before = clock.now_ms()
    monkeypatch.setattr(time, "time_ns", lambda: (before - HOUR_MS) * 1_000_000)
    assert before <= clock.now_ms() < before + 1_000


# --- between servers


async def test_a_server_behind_the_others_starts_from_their_time(blank: Store) -> None:
    fast, fast_machine = await _opened(blank, START_MS + HOUR_MS)
    slow, slow_machine = await _opened(blank, START_MS)
    assert slow.clock.now_ms() == fast.clock.now_ms() == START_MS + HOUR_MS
    for machine in (fast_machine, slow_machine):
        machine.ms += 5
    assert slow.clock.now_ms() == fast.clock.now_ms() == START_MS + HOUR_MS + 5


async def test_a_server_overtaken_by_others_follows_at_its_next_lease(blank: Store) -> None:
    slow, _ = await _opened(blank, START_MS)
    fast, fast_machine = await _opened(blank, START_MS + HOUR_MS)
    fast_machine.ms += 1_000
    await fast.renew()
    await slow.renew()
    assert slow.clock.now_ms() == fast.clock.now_ms() == START_MS + HOUR_MS + 1_000
    slow.ids.next()


async def test_a_server_ahead_of_the_others_keeps_its_own_time(blank: Store) -> None:
    await _opened(blank, START_MS)
    fast, _ = await _opened(blank, START_MS + HOUR_MS)
    await fast.renew()
    assert fast.clock.now_ms() == await _stored_time(blank) == START_MS + HOUR_MS


@pytest.mark.parametrize("end", ["died", "closed"])
async def test_time_goes_on_after_a_full_stop_and_a_clock_set_back(blank: Store, end: str) -> None:
    server, machine = await _opened(blank, START_MS)
    machine.ms += 14_000
    last = server.clock.now_ms()
    if end == "closed":
        await server.close()
    back, _ = await _opened(blank, START_MS - HOUR_MS)
    assert back.clock.now_ms() >= last - (14_000 if end == "died" else 0)


async def test_ids_are_made_while_a_lease_renewal_advances_the_time(
    blank: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, _ = await _opened(blank, START_MS)
    await _opened(blank, START_MS + HOUR_MS)
    update = blank.mongo.find_one_and_update
    made = []

    async def updating(*args: object, **options: object) -> object:
        made.append(slow.ids.next())
        row = await update(*args, **options)  # type: ignore[arg-type]
        made.append(slow.ids.next())
        return row

    monkeypatch.setattr(blank.mongo, "find_one_and_update", updating)
    await slow.renew()
    made.append(slow.ids.next())
    assert len(made) == 5
    assert made == sorted(set(made))


# --- absurd clocks


async def test_a_server_days_ahead_does_not_advance_the_others_and_logs_it(store: Store) -> None:
    before = await _stored_time(store)
    with capture_logs() as logs:
        ahead, _ = await _opened(store, before + 2 * DAY_MS)
    assert {log["log_level"] for log in logs} == {"error"}
    assert await _stored_time(store) == before
    with capture_logs() as logs:
        sane, _ = await _opened(store, before + HOUR_MS)
        await sane.renew()
    assert logs == []
    assert sane.clock.now_ms() == await _stored_time(store) == before + HOUR_MS
    assert ahead.clock.now_ms() == before + 2 * DAY_MS


async def test_after_days_of_sleep_the_first_server_sets_the_time(store: Store) -> None:
    now = await _stored_time(store)
    await store.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"time": now - 30 * DAY_MS}})
    with capture_logs() as logs:
        await _opened(store, now)
    assert logs == []
    assert await _stored_time(store) == now


# --- worker numbers


async def test_a_server_with_a_fast_clock_takes_no_number_in_use(blank: Store) -> None:
    slow, _ = await _opened(blank, START_MS)
    fast, _ = await _opened(blank, START_MS + HOUR_MS)
    assert fast.ids.worker != slow.ids.worker
    await slow.renew()
    slow.ids.next()


@pytest.mark.parametrize("end", ["died", "closed"])
async def test_a_reused_number_makes_no_id_of_its_last_holder_again(blank: Store, end: str) -> None:
    first, machine = await _opened(blank, START_MS)
    made = [first.ids.next()]
    machine.ms += VALID_MS - 1
    made.append(first.ids.next())
    if end == "closed":
        await first.close()
        await blank.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"time": START_MS}})
    else:
        number = {"_id": 5 * WORKERS + first.ids.worker}
        assert await blank.mongo.update_one(LEASES, number, {"$inc": {"until": -LEASE_MS - 1}})
    # The second server ends without having made an id, the third one after it has.
    for makes in (False, True, True):
        next_one, _ = await _opened(blank, START_MS - HOUR_MS)
        assert next_one.ids.worker == first.ids.worker
        made += [next_one.ids.next()] if makes else []
        await next_one.close()
        await blank.mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$set": {"time": START_MS}})
    assert len(made) == 4 and made == sorted(set(made))


async def test_servers_with_a_lease_of_this_version_are_in_the_ring(blank: Store) -> None:
    one, _ = await _opened(blank, START_MS)
    other, _ = await _opened(blank, START_MS)
    both = {one.name, other.name}
    assert await one.list_ring() & both == await other.list_ring() & both == both
    # A server of an earlier version takes over the number of a server that has died.
    number = {"_id": 5 * WORKERS + other.ids.worker}
    await blank.mongo.update_one(LEASES, number, {"$set": {"owner": "older"}})
    assert await one.list_ring() & {*both, "older"} == {one.name}
    await blank.mongo.update_one(LEASES, number, {"$set": {"owner": other.name}, "$inc": {"until": -LEASE_MS - 1}})
    assert await one.list_ring() & both == {one.name}
    await other.renew()
    await one.close()
    assert await other.list_ring() & both == {other.name}
