"""Jobs in MongoDB (ADR 93).

A server leases a job, and renews the lease while it works. If it dies, the lease ends, and another server continues.
Leases are judged by MongoDB's clock, because the clocks of two servers may differ by more than a lease.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import InsertOne
from pymongo.errors import DuplicateKeyError

from store.base.clock import Clock
from store.base.ids import UserId
from store.jobs.job import Job, JobId, JobKind, JobState
from store.mongo.client import Document, Mongo
from store.mongo.collections import JOBS
from store.mongo.index_fields import BY_JOB_DUE, BY_JOB_USER
from store.mongo.mongo_clock import MONGO_NOW

LEASE_MS = 30_000
"""Duration of a lease: other servers continue the job of one that has not renewed it for this time."""

MOST_ATTEMPTS = 20
"""A job has failed after this number of attempts without progress."""

_KEPT_DAYS = {JobKind.EXPORT: 8, JobKind.RECALLS: 8}
"""Days after its end after which a job of some kinds is removed. The file of an export is removed before."""

_CANDIDATES = 10
"""Due jobs that a server tries to lease, if other servers lease the first ones."""


_KNOWN_KINDS = {"$in": [kind.value for kind in JobKind]}
"""Jobs of other kinds are left to servers of later versions (ADR 104)."""


class LeaseLost(Exception):
    """Raised when another server has the job, or it was deleted. Nothing was stored. The work has to stop."""


class JobField:
    """Stored names of the fields of `jobs` (`_id`: the job)."""

    KIND = "k"
    USER = "u"
    CREATED = "ct"
    STATE = "st"
    INPUT = "i"
    PROGRESS = "p"
    ATTEMPTS = "n"
    FINISHED = "ft"
    DUE = "d"
    """When a server may take it (ms, MongoDB's clock): 0: at once; the end of a lease, or the next attempt. Absent when
    it ended."""
    LEASE = "l"
    UNTIL = "until"
    """When MongoDB removes the row (a date). Absent: it does not."""
    ONLY = "o"
    """"<kind> <user>" while it has not ended, if there may be only one of this kind about the user. Unique."""


_F = JobField


class JobStore:
    """Creates, leases and ends jobs. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo, clock: Clock) -> None:
        self._mongo = mongo
        self._clock = clock
        self.on_created: Callable[[], None] = lambda: None
        """Called after a job was created here. Callers of `creation_write` call it after their transaction."""

    def creation_write(self, job: Job, delay_ms: int = 0) -> InsertOne[Document]:
        """Return the write that creates a job, for a transaction.

        delay_ms: Servers do not begin the job before about this time has passed.
        """
        delayed = {_F.DUE: self._clock.now_ms() + delay_ms} if delay_ms else {}
        return InsertOne(_row_of(job) | delayed)

    def creation_writes(self, jobs: Sequence[tuple[Job, int]]) -> tuple[str, list[InsertOne[Document]]]:
        """Return the collection and the writes that create jobs, each with its delay (ms), for a transaction."""
        return JOBS, [self.creation_write(job, delay_ms) for job, delay_ms in jobs]

    async def create(self, job: Job) -> None:
        """Create a job."""
        await self._mongo.insert_one(JOBS, _row_of(job))
        self.on_created()

    async def create_only(self, job: Job) -> Job:
        """Create a job, unless its user has one of its kind that is WAITING or RUNNING. Return the new or existing one.

        Only jobs that this method created are compared.
        """
        only = f"{job.kind.value} {job.user}"
        while True:
            try:
                await self._mongo.insert_one(JOBS, _row_of(job) | {_F.ONLY: only})
            except DuplicateKeyError:
                row = await self._mongo.find_one(JOBS, {_F.ONLY: only})
                if row is not None:
                    return _job_from(row)
            else:
                self.on_created()
                return job

    async def find(self, id: str) -> Job | None:
        """Return a job. One round trip."""
        row = await self._mongo.find_one(JOBS, {"_id": id, _F.KIND: _KNOWN_KINDS})
        return _job_from(row) if row is not None else None

    async def find_newest(self, user: UserId, kind: JobKind) -> Job | None:
        """Return the newest job of a kind about a user. One round trip."""
        query = {_F.USER: user, _F.KIND: kind.value}
        rows = await self._mongo.find(JOBS, query, sort=((_F.CREATED, -1),), limit=1, hint=BY_JOB_USER)
        return _job_from(rows[0]) if rows else None

    async def list_newest(self, user: UserId, limit: int) -> list[Job]:
        """Return the jobs about a user of the kinds that this version knows, the newest first. One round trip."""
        query = {_F.USER: user, _F.KIND: _KNOWN_KINDS}
        rows = await self._mongo.find(JOBS, query, sort=((_F.CREATED, -1),), limit=limit, hint=BY_JOB_USER)
        return list(map(_job_from, rows))

    async def count_all(self) -> dict[tuple[JobKind, JobState], int]:
        """Return the numbers of jobs by kind and state, of the kinds that this version knows.

        Reads all jobs: for rare calls. One round trip.
        """
        group = {"_id": {"kind": f"${_F.KIND}", "state": f"${_F.STATE}"}, "count": {"$sum": 1}}
        rows = await self._mongo.aggregate(JOBS, [{"$match": {_F.KIND: _KNOWN_KINDS}}, {"$group": group}])
        return {(JobKind(row["_id"]["kind"]), JobState(row["_id"]["state"])): int(row["count"]) for row in rows}

    async def lease(self, kinds: Collection[JobKind]) -> Job | None:
        """Lease the job of some kinds that has waited longest; None: none is due.

        The attempts of the answer include this one.
        """
        due: Document = {
            _F.DUE: {"$gte": 0},
            _F.KIND: {"$in": [kind.value for kind in kinds]},
            "$expr": {"$lte": [f"${_F.DUE}", MONGO_NOW]},
        }
        for row in await self._mongo.find(JOBS, due, sort=BY_JOB_DUE, limit=_CANDIDATES, hint=BY_JOB_DUE):
            lease = secrets.token_hex(8)
            values = {_F.STATE: JobState.RUNNING.value, _F.DUE: _in_ms(LEASE_MS), _F.LEASE: lease}
            taken = [{"$set": values | {_F.ATTEMPTS: {"$add": [f"${_F.ATTEMPTS}", 1]}}}]
            if await self._mongo.update_one(JOBS, {"_id": row["_id"], _F.DUE: row[_F.DUE]}, taken):
                job = _job_from(row)
                return replace(job, state=JobState.RUNNING, attempts=job.attempts + 1, lease=lease)
        return None

    async def renew(self, job: Job) -> None:
        """Renew the lease of a job. Raises LeaseLost."""
        await self._update(job, [{"$set": {_F.DUE: _in_ms(LEASE_MS)}}])

    async def save_progress(self, job: Job, progress: Mapping[str, Any], *, counts: bool = True) -> Job:
        """Note the progress of a leased job, and renew the lease. Return the job with it.

        counts: The work has made progress, so attempts are counted from zero again. Raises LeaseLost.
        """
        values = {_F.PROGRESS: {"$literal": dict(progress)}, _F.DUE: _in_ms(LEASE_MS)}
        if counts:
            values[_F.ATTEMPTS] = {"$literal": 0}
        await self._update(job, [{"$set": values}])
        return replace(job, progress=progress, attempts=0 if counts else job.attempts)

    async def finish(self, job: Job, *, has_failed: bool = False) -> None:
        """End a leased job. Raises LeaseLost."""
        state = JobState.FAILED if has_failed else JobState.DONE
        now_ms = self._clock.now_ms()
        values: Document = {_F.STATE: state.value, _F.FINISHED: now_ms}
        if job.kind in _KEPT_DAYS:
            values[_F.UNTIL] = datetime.fromtimestamp(now_ms / 1000, UTC) + timedelta(days=_KEPT_DAYS[job.kind])
        await self._update(job, {"$set": values, "$unset": {_F.DUE: "", _F.LEASE: "", _F.ONLY: ""}})

    async def forget_input(self, job: Job) -> Job:
        """Remove the input of a leased job, which names a user who is erased. Raises LeaseLost."""
        await self._update(job, {"$set": {_F.INPUT: {}}})
        return replace(job, input={})

    async def give_back(self, job: Job, pause_ms: int) -> None:
        """End the lease. The next attempt may begin after a pause. Raises LeaseLost."""
        await self._update(job, [{"$set": {_F.DUE: _in_ms(pause_ms)}}, {"$unset": _F.LEASE}])

    async def delete(self, id: JobId) -> None:
        """Delete a job."""
        await self._mongo.delete_one(JOBS, {"_id": id})

    async def _update(self, job: Job, update: Document | list[Document]) -> None:
        if not await self._mongo.update_one(JOBS, {"_id": job.id, _F.LEASE: job.lease}, update):
            raise LeaseLost(f"another server has the job {job.id} now")


def is_running(row: Document) -> bool:
    """Return whether a server has leased the job of a row."""
    return _F.LEASE in row


def _in_ms(pause_ms: int) -> Document:
    return {"$add": [MONGO_NOW, pause_ms]}


def _row_of(job: Job) -> Document:
    return {
        "_id": job.id,
        _F.KIND: job.kind.value,
        _F.USER: job.user,
        _F.CREATED: job.created_at_ms,
        _F.STATE: job.state.value,
        _F.INPUT: dict(job.input),
        _F.PROGRESS: dict(job.progress),
        _F.ATTEMPTS: job.attempts,
        _F.DUE: 0,
    }


def _job_from(row: Document) -> Job:
    return Job(
        id=JobId(row["_id"]),
        kind=JobKind(row[_F.KIND]),
        user=UserId(row[_F.USER]),
        created_at_ms=row[_F.CREATED],
        state=JobState(row[_F.STATE]),
        input=row[_F.INPUT],
        progress=row[_F.PROGRESS],
        attempts=row[_F.ATTEMPTS],
        finished_at_ms=row.get(_F.FINISHED),
        lease=row.get(_F.LEASE, ""),
    )
