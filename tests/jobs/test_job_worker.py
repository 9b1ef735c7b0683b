"""Jobs are done once, continue after dead servers, and fail after attempts without progress."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import UpdateMany

from resolvers.jobs.job_worker import JobWorker, RunJob, RunningJob
from store.base.errors import Superseded, Unreachable
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.jobs.job import Job, JobId, JobKind, JobState
from store.jobs.job_store import MOST_ATTEMPTS, LeaseLost
from store.mongo.collections import JOBS
from store.store import Store
from tests.waiting import wait_for

USER = UserId("alice")


async def create(store: Store, kind: JobKind = JobKind.EXPORT, user: UserId = USER) -> Job:
    job = Job(JobId(str(store.ids.next())), kind, user, store.clock.now_ms())
    await store.jobs.create(job)
    return job


async def find(store: Store, job: Job) -> Job:
    found = await store.jobs.find(job.id)
    assert found is not None
    return found


async def end_lease(store: Store) -> None:
    """Let the leases of all servers end, as time would."""
    await store.mongo.bulk_write(JOBS, [UpdateMany({"d": {"$gt": 0}}, {"$set": {"d": 1}})])


def worker_of(store: Store, run: RunJob, kind: JobKind = JobKind.EXPORT) -> JobWorker:
    return JobWorker(store.jobs, {kind: run})


async def test_a_job_is_done_once_and_its_progress_stays(store: Store) -> None:
    job, done = await create(store), list[str]()

    async def run(running: RunningJob) -> None:
        done.append(running.job.id)
        await running.save({"rows": 3})

    worker = worker_of(store, run)
    assert await worker.run_due() == 1
    assert await worker.run_due() == 0
    found = await find(store, job)
    assert done == [job.id]
    assert (found.state, found.progress, found.lease) == (JobState.DONE, {"rows": 3}, "")
    assert found.finished_at_ms is not None


async def test_jobs_are_done_in_the_order_of_their_creation(store: Store) -> None:
    jobs, done = [await create(store) for _ in range(5)], list[str]()

    async def run(running: RunningJob) -> None:
        done.append(running.job.id)

    await worker_of(store, run).run_due()
    assert done == [job.id for job in jobs]


async def test_only_jobs_of_known_kinds_are_taken(store: Store) -> None:
    await create(store, JobKind.ERASURE)

    async def run(_: RunningJob) -> None:
        raise AssertionError

    assert await worker_of(store, run).run_due() == 0


async def test_two_servers_do_each_job_once(store: Store) -> None:
    jobs, done = [await create(store) for _ in range(10)], list[str]()

    async def run(running: RunningJob) -> None:
        await asyncio.sleep(0)
        done.append(running.job.id)

    await asyncio.gather(*(worker_of(store, run).run_due() for _ in range(2)))
    assert sorted(done) == sorted(job.id for job in jobs)


async def test_another_server_continues_from_the_progress_of_a_dead_one(store: Store) -> None:
    job, began, continued = await create(store), asyncio.Event(), list[Any]()

    async def die(running: RunningJob) -> None:
        await running.save({"rows": 7})
        began.set()
        await asyncio.Event().wait()

    async def run(running: RunningJob) -> None:
        continued.append(running.progress)

    dead = asyncio.create_task(worker_of(store, die).run_due())
    await began.wait()
    await end_tasks([dead])
    other = worker_of(store, run)
    assert await other.run_due() == 0, "the dead server still has the lease"
    await end_lease(store)
    assert await other.run_due() == 1
    assert continued == [{"rows": 7}]
    assert (await find(store, job)).state is JobState.DONE


async def test_a_server_that_stops_gives_its_job_back_at_once(store: Store) -> None:
    job, began = await create(store), asyncio.Event()

    async def wait(_: RunningJob) -> None:
        began.set()
        await asyncio.Event().wait()

    async def run(_: RunningJob) -> None:
        pass

    stopping = worker_of(store, wait)
    stopping.open()
    await began.wait()
    await stopping.close()
    assert await worker_of(store, run).run_due() == 1
    assert (await find(store, job)).state is JobState.DONE


@pytest.mark.parametrize("error", [Unreachable("connection closed"), RuntimeError("no running loop")])
async def test_a_server_that_stops_reports_no_exception_of_the_work_that_it_ended(
    store: Store, error: Exception
) -> None:
    job, begun, reported = await create(store), asyncio.Event(), list[dict[str, Any]]()

    async def run(running: RunningJob) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # As a driver does that turns a cancellation into an error of its own.
            raise error from None

    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    try:
        worker = worker_of(store, run)
        worker.open()
        await begun.wait()
        await worker.close()
        # asyncio reports the exception of a task when that is collected.
        gc.collect()
        await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(handler)
    assert reported == []
    assert (await find(store, job)).lease == ""


async def test_a_created_job_wakes_the_worker_of_its_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.jobs.job_worker.POLL_SECONDS", 3_600.0)
    done = list[str]()

    async def run(running: RunningJob) -> None:
        done.append(running.job.id)

    worker = worker_of(store, run)
    store.jobs.on_created = worker.wake
    worker.open()
    try:
        for number in range(2):
            await create(store)
            await wait_for(lambda number=number: len(done) == number + 1)
    finally:
        await worker.close()


async def test_a_long_job_does_not_delay_one_of_another_kind(store: Store) -> None:
    began, done = asyncio.Event(), asyncio.Event()

    async def wait(_: RunningJob) -> None:
        began.set()
        await asyncio.Event().wait()

    async def run(_: RunningJob) -> None:
        done.set()

    worker = JobWorker(store.jobs, {JobKind.EXPORT: wait, JobKind.RECALLS: run})
    worker.open()
    try:
        await create(store)
        worker.wake()
        await began.wait()
        await create(store, JobKind.RECALLS)
        worker.wake()
        async with asyncio.timeout(20):
            await done.wait()
    finally:
        await worker.close()


async def test_the_lease_is_renewed_while_the_work_takes_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.jobs.job_worker._RENEWAL_SECONDS", 0.01)
    await create(store)

    async def run(_: RunningJob) -> None:
        await end_lease(store)
        await wait_until_renewed(store)

    assert await worker_of(store, run).run_due() == 1


async def wait_until_renewed(store: Store) -> None:
    async with asyncio.timeout(20):
        while (await store.mongo.find_one(JOBS, {}) or {})["d"] == 1:  # noqa: ASYNC110  # MongoDB has no events
            await asyncio.sleep(0.005)


async def test_work_is_stopped_when_another_server_has_the_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.jobs.job_worker._RENEWAL_SECONDS", 0.01)
    job, began, stopped = await create(store), asyncio.Event(), asyncio.Event()

    async def wait(_: RunningJob) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    losing = asyncio.create_task(worker_of(store, wait).run_due())
    await began.wait()
    await end_lease(store)
    taken = await _take(store)
    async with asyncio.timeout(20):
        await stopped.wait()
        await losing
    found = await find(store, job)
    assert (found.state, found.lease) == (JobState.RUNNING, taken.lease), "the job is the other server's"


async def _take(store: Store) -> Job:
    async with asyncio.timeout(20):
        while (taken := await store.jobs.lease([JobKind.EXPORT])) is None:
            await end_lease(store)
    return taken


async def test_work_is_stopped_when_its_lease_cannot_be_renewed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.jobs.job_worker._RENEWAL_SECONDS", 0.01)
    monkeypatch.setattr("resolvers.jobs.job_worker.STOP_SECONDS", 0.05)
    job, stopped = await create(store), asyncio.Event()

    async def fail(_: Job) -> None:
        raise Unreachable("no primary")

    async def wait(_: RunningJob) -> None:
        monkeypatch.setattr(store.jobs, "renew", fail)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    await worker_of(store, wait).run_due()
    assert stopped.is_set()
    assert (await find(store, job)).state is JobState.RUNNING, "another server continues it"


@pytest.mark.parametrize("change", ["save", "renew", "finish", "give_back"])
async def test_a_server_without_the_lease_changes_nothing(store: Store, change: str) -> None:
    await create(store)
    old = await _take(store)
    await end_lease(store)
    new = await _take(store)
    before = await store.mongo.find_one(JOBS, {})
    calls: dict[str, Callable[[], Any]] = {
        "save": lambda: store.jobs.save_progress(old, {"x": 1}),
        "renew": lambda: store.jobs.renew(old),
        "finish": lambda: store.jobs.finish(old),
        "give_back": lambda: store.jobs.give_back(old, 0),
    }
    with pytest.raises(LeaseLost):
        await calls[change]()
    assert await store.mongo.find_one(JOBS, {}) == before
    await store.jobs.finish(new)


@pytest.mark.parametrize("error", [Unreachable("no answer"), Superseded("a group changed")])
async def test_interrupted_work_is_tried_again_and_fails_in_the_end(store: Store, error: Exception) -> None:
    job, attempts = await create(store), 0

    async def run(_: RunningJob) -> None:
        nonlocal attempts
        attempts += 1
        raise error

    worker = worker_of(store, run)
    for _ in range(MOST_ATTEMPTS + 1):
        await worker.run_due()
        await end_lease(store)
    found = await find(store, job)
    assert (found.state, attempts) == (JobState.FAILED, MOST_ATTEMPTS)


async def test_pauses_grow_so_that_a_job_survives_some_minutes_without_redis(store: Store) -> None:
    await create(store)

    async def run(_: RunningJob) -> None:
        raise Unreachable("no answer")

    worker, pauses = worker_of(store, run), list[float]()
    for _ in range(MOST_ATTEMPTS - 1):
        await worker.run_due()
        row = await store.mongo.find_one(JOBS, {})
        assert row is not None
        pauses.append(row["d"] - time.time() * 1000)
        await end_lease(store)
    assert pauses[0] < 2_500 and sum(pauses) > 10 * 60_000


async def test_a_job_that_kills_its_servers_fails_in_the_end(store: Store) -> None:
    job = await create(store)
    for _ in range(MOST_ATTEMPTS):
        assert await store.jobs.lease([JobKind.EXPORT]) is not None
        await end_lease(store)

    async def run(_: RunningJob) -> None:
        raise AssertionError

    await worker_of(store, run).run_due()
    assert (await find(store, job)).state is JobState.FAILED


@pytest.mark.parametrize(("counts", "attempts"), [(True, 0), (False, 3)])
async def test_progress_resets_the_attempts_if_it_counts(store: Store, counts: bool, attempts: int) -> None:
    job = await create(store)
    for _ in range(3):
        taken = await _take(store)
        await end_lease(store)
    await store.jobs.save_progress(taken, {"x": 1}, counts=counts)
    assert (await find(store, job)).attempts == attempts


async def test_a_job_whose_work_raises_has_failed(store: Store) -> None:
    job = await create(store)

    async def run(_: RunningJob) -> None:
        raise ValueError("a bug")

    await worker_of(store, run).run_due()
    found = await find(store, job)
    assert (found.state, found.lease) == (JobState.FAILED, "")


async def test_a_user_has_one_such_job_at_a_time(store: Store) -> None:
    def job(user: str = USER) -> Job:
        return Job(JobId(str(store.ids.next())), JobKind.EXPORT, UserId(user), store.clock.now_ms())

    jobs = await asyncio.gather(*(store.jobs.create_only(job()) for _ in range(5)))
    assert len({job.id for job in jobs}) == 1
    assert (await store.jobs.create_only(job("bob"))).user == "bob"

    async def run(_: RunningJob) -> None:
        pass

    assert await worker_of(store, run).run_due() == 2
    assert (await store.jobs.create_only(job())).id != jobs[0].id, "the first one has ended"
