"""Workers: they send pushes and events to webhooks, and do jobs. They run in servers, or alone (`confab work`)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Protocol

from resolvers.base.app import Confab
from resolvers.erasure.erasure_job import ErasureJob
from resolvers.export.export_job import run_export
from resolvers.jobs.job_worker import JobWorker, RunJob
from resolvers.push.push_service import PushService
from resolvers.push.worker.content import NotificationTexts
from resolvers.push.worker.push_sender import PushSender
from resolvers.push.worker.push_worker import PushWorker
from resolvers.recalls.written_recalls import WrittenRecalls
from server.settings import Settings
from store.devices.device import PushPlatform
from store.jobs.job import JobKind
from subscriptions.delivery.push.push_notes import PushNotes


class BackgroundWorker(Protocol):
    """Works in the background until it is closed. Several processes may run it."""

    def open(self) -> None:
        """Begin to work. Returns at once."""
        ...

    async def close(self) -> None:
        """Take no more work, and complete what has begun. Other processes do the rest."""
        ...


def build_push_worker(
    settings: Settings, app: Confab, services: Mapping[PushPlatform, PushService], push_notes: PushNotes
) -> PushWorker | None:
    """Return the worker of pushes; None if no push service is set up."""
    if not services:
        return None
    sender = PushSender(services, app.store.devices, app.store.clock, random.random)
    worker = PushWorker(app, sender, NotificationTexts(app.store, shows_names=settings.push_previews))
    if settings.workers:
        push_notes.on_noted = worker.wake
        app.stale_notifications.on_due = worker.wake_for_intents
    return worker


def build_job_worker(settings: Settings, app: Confab) -> JobWorker:
    """Return the worker of jobs."""
    kinds: dict[JobKind, RunJob] = {
        JobKind.EXPORT: partial(run_export, app),
        JobKind.ERASURE: ErasureJob(app).run,
        JobKind.RECALLS: WrittenRecalls(app).run,
    }
    worker = JobWorker(app.store.jobs, kinds)
    if settings.workers:
        app.store.jobs.on_created = worker.wake
    return worker
