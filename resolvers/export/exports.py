"""Exports as their users see them: beginning one, and its state (ADR 93)."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import RateLimited
from resolvers.export.export_job import FinishedExport, export_filename, finished_export
from store.base.ids import UserId
from store.jobs.job import Job, JobId, JobKind, JobState

INTERVAL_MS = 24 * 3600 * 1000
"""Time between the beginnings of two exports of a user. Failed ones do not count."""

_ENDED = (JobState.DONE, JobState.FAILED)


@dataclass(frozen=True, slots=True)
class ShownExport:
    """An export of the viewer.

    Attributes:
        job: The job that makes it.
        result: Its file, once it is DONE.
    """

    job: Job
    result: FinishedExport | None

    @property
    def expires_at_ms(self) -> int | None:
        """When the file is removed; None: there is none yet."""
        return self.result.expires_at_ms if self.result is not None else None

    def address(self, app: Confab) -> str | None:
        """Return the address of the file, valid for about an hour; None: there is none yet."""
        return app.addresses.file(self.result.file, export_filename(self.job)) if self.result is not None else None


async def export_my_data(app: Confab, user: UserId) -> ShownExport:
    """Begin an export. If one of the user is WAITING or RUNNING, return it.

    Raises RateLimited if another one was begun in the last 24 hours and did not fail. Raises Unreachable.
    """
    store = app.store
    now_ms = store.clock.now_ms()
    newest = await store.jobs.find_newest(user, JobKind.EXPORT)
    if newest is not None and newest.state not in _ENDED:
        return _shown(newest)
    if newest is not None and newest.state is JobState.DONE:
        wait_ms = newest.created_at_ms + INTERVAL_MS - now_ms
        if wait_ms > 0:
            raise RateLimited(
                "you have exported your data in the last 24 hours; use that export, or try again later",
                retry_after_ms=wait_ms,
            )
    job = Job(JobId(str(store.ids.next())), JobKind.EXPORT, user, now_ms)
    return _shown(await store.jobs.create_only(job))


async def find_export(app: Confab, user: UserId, id: str) -> ShownExport | None:
    """Return an export of a user until its file expires. None for exports of others, after the same read."""
    job = await app.store.jobs.find(id)
    if job is None or job.kind is not JobKind.EXPORT or job.user != user:
        return None
    export = _shown(job)
    is_expired = export.expires_at_ms is not None and export.expires_at_ms <= app.store.clock.now_ms()
    return None if is_expired else export


def _shown(job: Job) -> ShownExport:
    return ShownExport(job, finished_export(job) if job.state is JobState.DONE else None)
