"""Runs the parts of one process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from resolvers.base.app import Confab
from resolvers.jobs.job_worker import JobWorker
from resolvers.previews.pictures import Pictures
from resolvers.push.push_service import PushService
from resolvers.push.worker.push_worker import PushWorker
from resolvers.users import users
from resolvers.users.callers import Caller
from resolvers.voice.media.livekit_parts import LiveKitParts
from resolvers.webhooks.outgoing.webhook_parts import WebhookParts
from schema.execution.event_slots import EventSlots
from server.blob_store import check_blob_store
from server.connections import connect
from server.opening import open_databases, release_worker_number
from server.parts import build_engine, build_parts
from server.push_services import build_push_services
from server.settings import Settings
from store.base.clock import Clock, SystemClock
from store.base.errors import StoreError
from store.base.tasks import end_tasks
from store.devices.device import PushPlatform
from store.mongo.migrations import Migrator
from subscriptions.delivery.housekeeping import Housekeeper
from subscriptions.realtime.revocations import Revocations
from subscriptions.transport.engine import GraphQLEngine

_log = structlog.get_logger()

_CHECK_SECONDS = 2.0
"""Time limit of a readiness check."""

START_WAIT_SECONDS = 2.0
"""Time to wait for the databases at startup. After it the server starts, and waits in the background."""


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of a process that the transports use."""

    engine: GraphQLEngine
    app: Confab
    pictures: Pictures
    event_slots: EventSlots
    housekeeper: Housekeeper
    revocations: Revocations
    migrator: Migrator
    opened: asyncio.Event
    """Set once indexes exist, this process has a worker number, and Redis has the scripts."""
    must_stop: asyncio.Event
    """Set if the process has to stop: the data is of a newer version, or other servers are incompatible (ADR 104)."""
    fetched_links: Counter[str]
    """Links whose previews this process fetched, by outcome."""
    livekit: LiveKitParts | None
    push_worker: PushWorker | None
    job_worker: JobWorker
    webhooks: WebhookParts
    failing: dict[str, str]
    """Why databases failed the last readiness check, by database."""

    async def sign_in(self, caller: Caller) -> None:
        """Create the user on their first authenticated request. Costs nothing for known users."""
        await users.sign_in(self.app, caller)

    async def check(self) -> dict[str, str | None]:
        """Return the readiness of each database: None if it answers within two seconds, or a short reason.

        Until `opened` is set, `start` has a reason too.
        """
        store = self.app.store
        mongo, redis = await asyncio.gather(
            self._probe("mongodb", store.mongo.ping()), self._probe("redis", store.cache.check_health())
        )
        checks = {"mongodb": mongo, "redis": redis}
        if not self.opened.is_set():
            checks["start"] = "indexes, worker number or Redis scripts are not ready yet"
        return checks

    async def _probe(self, database: str, ping: Awaitable[object]) -> str | None:
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await ping
        except TimeoutError:
            return f"no answer within {_CHECK_SECONDS:g} s"
        except StoreError as error:
            # The endpoint is public: addresses of databases go to the log only. Checks come several times a second.
            if self.failing.get(database) != str(error):
                self.failing[database] = str(error)
                _log.info("database_unreachable", reason=str(error))
            return "unreachable"
        self.failing.pop(database, None)
        return None


@asynccontextmanager
async def open_services(
    settings: Settings,
    clock: Clock | None = None,
    *,
    start_wait_seconds: float | None = None,
    push_services: Mapping[PushPlatform, PushService] | None = None,
) -> AsyncIterator[Services]:
    """Run the services for the duration of the block. Waits in the background for a database that is unreachable.

    Until `opened` is set, calls raise StoreError. Programs that do not retry pass a long `start_wait_seconds`; the
    default is START_WAIT_SECONDS. push_services: in place of those of the settings; the block closes them.
    """
    databases = connect(settings, clock or SystemClock())
    store = databases.store
    if push_services is None:
        push_services = build_push_services(settings, store.clock)
    parts = build_parts(settings, store, push_services)
    engine = build_engine(settings, parts.app)
    opened, must_stop = asyncio.Event(), asyncio.Event()
    migrator = Migrator(databases.mongo)
    opening = [
        asyncio.create_task(
            open_databases(
                store, parts.ring, settings.data_center, opened, must_stop, migrator if settings.migrate else None
            )
        ),
        asyncio.create_task(parts.revocations.reading.open()),
        asyncio.create_task(parts.app.bans.reading.open()),
    ]
    checking_blobs = asyncio.create_task(check_blob_store(store.blobs))
    # Marks the exception as retrieved: `must_stop` signals it if nobody awaits the task.
    opening[0].add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        # Usually this is quick, and the server then answers from its first request on.
        await asyncio.wait(opening, timeout=START_WAIT_SECONDS if start_wait_seconds is None else start_wait_seconds)
        if opening[0].done():
            opening[0].result()
        await parts.open()
        yield Services(
            engine,
            parts.app,
            parts.preview_fetcher.pictures,
            engine.event_slots,
            parts.housekeeper,
            parts.revocations,
            migrator,
            opened,
            must_stop,
            parts.preview_fetcher.outcomes,
            parts.livekit,
            parts.push_worker,
            parts.job_worker,
            parts.webhooks,
            {},
        )
    finally:
        await end_tasks([*opening, checking_blobs])
        await migrator.close()
        await parts.close()
        await release_worker_number(store, settings.data_center)
        await databases.close()
