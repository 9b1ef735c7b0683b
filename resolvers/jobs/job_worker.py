"""The worker of jobs: takes those that are due, one of each kind at a time in each process (ADR 93)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from store.base.background import mark_as_background
from store.base.errors import StoreError
from store.base.repeated_work import RepeatedWork
from store.base.tasks import end_tasks
from store.jobs.job import Job, JobKind
from store.jobs.job_store import LEASE_MS, MOST_ATTEMPTS, JobStore, LeaseLost

_log = structlog.get_logger()

POLL_SECONDS = 2.0
"""Interval at which a worker looks for jobs that other servers created or left."""

_RENEWAL_SECONDS = LEASE_MS / 1000 / 6
STOP_SECONDS = LEASE_MS / 1000 * 2 / 3
"""Time after a renewal after which the work stops if no other one has succeeded: the lease is about to end."""

_RETRY_MS, _LONGEST_RETRY_MS = 2_000, 60_000
"""Pause after an attempt that was interrupted. It doubles with each attempt without progress: a job survives a quarter
of an hour without Redis."""

_GIVE_BACK_SECONDS = 1.0


class RunningJob:
    """A job that this process has leased, for the function that does its work."""

    def __init__(self, jobs: JobStore, job: Job) -> None:
        self._jobs = jobs
        self.job = job

    @property
    def progress(self) -> Mapping[str, Any]:
        """Progress that was noted so far."""
        return self.job.progress

    async def save(self, progress: Mapping[str, Any], *, counts: bool = True) -> None:
        """Note progress. The next attempt, perhaps of another server, begins there.

        counts: The work has made progress. False for notes that every attempt makes: a job without progress fails after
        some attempts. Raises LeaseLost: another process has the job, and the work has to stop.
        """
        self.job = await self._jobs.save_progress(self.job, progress, counts=counts)

    async def forget_input(self) -> None:
        """Remove the input, which is not needed any more. Raises LeaseLost."""
        self.job = await self._jobs.forget_input(self.job)

    async def renew(self) -> None:
        """Renew the lease. The worker calls this. Raises LeaseLost."""
        await self._jobs.renew(self.job)


RunJob = Callable[[RunningJob], Coroutine[Any, Any, None]]
"""Does the work of a job, beginning at its progress. Steps may be repeated: the process may die after any of them.

It is cancelled when another process has the job. After a StoreError it is tried again. After any other exception the
job has failed.
"""


class JobWorker:
    """One process's worker. Several processes share the jobs. A long job delays only others of its kind."""

    def __init__(self, jobs: JobStore, kinds: Mapping[JobKind, RunJob]) -> None:
        self._jobs = jobs
        self._kinds = kinds
        self._wake = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self._running: dict[JobKind, tuple[RunningJob, asyncio.Task[None]]] = {}

    def open(self) -> None:
        """Begin to work in the background."""
        self._polling = asyncio.create_task(self._repeat())

    async def close(self) -> None:
        """Stop. Another process continues the jobs of this one at once."""
        if self._polling is not None:
            await end_tasks([self._polling])
        running = list(self._running.values())
        await end_tasks(task for _, task in running)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GIVE_BACK_SECONDS):
                for job, _ in running:
                    with suppress(StoreError, LeaseLost):
                        await self._jobs.give_back(job.job, 0)

    def wake(self) -> None:
        """Look for jobs now: this process has created one."""
        self._wake.set()

    async def run_due(self) -> int:
        """Do all jobs that are due, one after another. Return their number. Raises StoreError."""
        done = 0
        while (job := await self._jobs.lease(self._kinds)) is not None:
            await self._run(RunningJob(self._jobs, job))
            done += 1
        return done

    async def _repeat(self) -> None:
        mark_as_background()
        work = RepeatedWork("jobs", self._begin_due)
        while True:
            await work.run()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def _begin_due(self) -> None:
        """Begin one due job of each kind of which this process does none now."""
        while free := [kind for kind in self._kinds if kind not in self._running]:
            job = await self._jobs.lease(free)
            if job is None:
                return
            running = RunningJob(self._jobs, job)
            task = asyncio.create_task(self._run(running))
            self._running[job.kind] = running, task
            task.add_done_callback(partial(self._end, job.kind))

    def _end(self, kind: JobKind, task: asyncio.Task[None]) -> None:
        # Jobs that `close` cancels stay in the list, so that it gives them back.
        if not task.cancelled():
            del self._running[kind]
            self._wake.set()

    async def _run(self, running: RunningJob) -> None:
        job = running.job
        fields = {"job": job.id, "kind": job.kind.name}
        try:
            if job.attempts > MOST_ATTEMPTS:
                # The job killed its servers, or they could not finish it.
                _log.error("job_failed", **fields, attempts=job.attempts)
                await self._jobs.finish(job, has_failed=True)
                return
            await self._work(running)
            await self._jobs.finish(running.job)
        except LeaseLost:
            _log.warning("job_taken_by_another_server", **fields)
        except StoreError as error:
            _log.warning("job_interrupted", **fields, attempts=running.job.attempts, reason=str(error))
            with suppress(StoreError, LeaseLost):
                if running.job.attempts >= MOST_ATTEMPTS:
                    await self._jobs.finish(running.job, has_failed=True)
                else:
                    await self._jobs.give_back(running.job, retry_pause_ms(running.job.attempts))
        except Exception:
            _log.exception("job_failed", **fields)
            with suppress(StoreError, LeaseLost):
                await self._jobs.finish(running.job, has_failed=True)

    async def _work(self, running: RunningJob) -> None:
        """Do the work, and renew the lease meanwhile. Raises LeaseLost once it is lost, or may be."""
        work = asyncio.create_task(self._kinds[running.job.kind](running))
        # Marks its exception as retrieved: nobody looks at it if this call is cancelled, or if the lease is lost.
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await self._renew_until_done(running, work)
        finally:
            await end_tasks([work])
        # Raises if it failed.
        work.result()

    async def _renew_until_done(self, running: RunningJob, work: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        while not (await asyncio.wait({work}, timeout=_RENEWAL_SECONDS))[0]:
            began = loop.time()
            try:
                async with asyncio.timeout_at(renewed_at + STOP_SECONDS):
                    await running.renew()
            except (StoreError, TimeoutError):
                if loop.time() >= renewed_at + STOP_SECONDS:
                    raise LeaseLost("the lease could not be renewed") from None
            else:
                renewed_at = began


def retry_pause_ms(attempts: int) -> int:
    """Return the pause (ms) after a number of attempts without progress."""
    return min(_RETRY_MS << max(0, attempts - 1), _LONGEST_RETRY_MS)
