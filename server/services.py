"""Builds and runs the parts of one process: store, bus, hub, delivery, engine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from resolvers.base.app import Confab, Limits
from resolvers.base.catch_ups import CatchUps
from resolvers.base.file_addresses import FileAddresses
from resolvers.base.work_budgets import WorkBudgets
from resolvers.conversations.access import list_readable, list_shown_groups
from resolvers.conversations.message_viewers import list_message_viewers, list_readers, select_viewers
from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.scanner import Scanner
from resolvers.previews.pictures import Pictures
from resolvers.previews.preview_fetcher import build_preview_fetcher
from resolvers.users import users
from resolvers.users.callers import Caller
from resolvers.workspaces.announcements import announce_change
from schema.execution.engine import Engine
from schema.execution.event_slots import EventSlots
from schema.execution.query_limits import QueryLimits
from server.blob_store import check_blob_store, open_blob_store
from server.embedded.redis_fallback import FallbackRedisServer
from server.settings import Settings
from server.settings.public_url import public_url
from store.base.clock import Clock, DeploymentClock, SystemClock
from store.base.errors import StoreError
from store.base.tasks import end_tasks
from store.deployment.deployment import Deployment
from store.mongo.client import Mongo
from store.mongo.migrations import Migrator, NewerData
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.store import Store, build_store
from store.users.rate_limits import RatesPerMinute
from subscriptions.delivery.announcements.pins import PinAnnouncements
from subscriptions.delivery.announcements.revision_publisher import RevisionPublisher
from subscriptions.delivery.coalescing.reaction_events import ReactionEvents
from subscriptions.delivery.coalescing.thread_events import ThreadEvents
from subscriptions.delivery.event_publisher import EventPublisher
from subscriptions.delivery.housekeeping import Housekeeper
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.previews.preview_worker import PreviewWorker
from subscriptions.delivery.reactions.reaction_changes import Reactions
from subscriptions.delivery.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.revisions import Revisions
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.ephemeral_delivery import EphemeralDelivery
from subscriptions.realtime.nicknames import listen_to_nicknames
from subscriptions.realtime.replay import Replayer
from subscriptions.realtime.revocations import Revocations
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.shared.shared_events import SharedEvents
from subscriptions.realtime.shared.watches import Watches
from subscriptions.realtime.typing_notifier import TypingNotifier
from subscriptions.realtime.user_hub import UserHub
from subscriptions.transport.engine import GraphQLEngine

_log = structlog.get_logger()

_CHECK_SECONDS = 2.0
"""Time limit of a readiness check."""

START_WAIT_SECONDS = 2.0
"""Time to wait for the databases at startup. After it the server starts, and waits in the background."""

_LEASE_HEARTBEAT_MS = 10_000
"""Interval at which the MongoDB client for the lease checks each member. A short one costs CPU on an idle server."""

_RELEASE_SECONDS = 2.0
"""Time limit for giving back the worker number."""


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
    data_is_newer: asyncio.Event
    """Set if MongoDB was unreachable at first, and then has data of a newer version. The process has to stop."""
    fetched_links: Counter[str]
    """Links whose previews this process fetched, by outcome."""

    async def sign_in(self, caller: Caller) -> None:
        """Create the user on their first authenticated request. Costs nothing for known users."""
        await users.sign_in(self.app, caller)

    async def check(self) -> dict[str, str | None]:
        """Return the readiness of each database: None if it answers within two seconds, or a short reason.

        Until `opened` is set, `start` has a reason too.
        """
        store = self.app.store
        mongo, redis = await asyncio.gather(_probe(store.mongo.ping()), _probe(store.cache.check_health()))
        checks = {"mongodb": mongo, "redis": redis}
        if not self.opened.is_set():
            checks["start"] = "indexes, worker number or Redis scripts are not ready yet"
        return checks


async def _probe(ping: Awaitable[object]) -> str | None:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await ping
    except TimeoutError:
        return f"no answer within {_CHECK_SECONDS:g} s"
    except StoreError as error:
        # The endpoint is public: addresses of databases go to the log only.
        _log.info("database_unreachable", reason=str(error))
        return "unreachable"
    return None


@asynccontextmanager
async def open_services(
    settings: Settings, clock: Clock | None = None, *, start_wait_seconds: float | None = None
) -> AsyncIterator[Services]:
    """Run the services for the duration of the block. Waits in the background for a database that is unreachable.

    Until `opened` is set, calls raise StoreError. Programs that do not retry pass a long `start_wait_seconds`; the
    default is START_WAIT_SECONDS.
    """
    mongo = Mongo(
        settings.mongo_url,
        settings.mongo_database,
        settings.mongo_driver,
        max_reads_per_user=settings.max_reads_per_user,
    )
    # The lease must be renewed in time, however many operations wait for connections.
    lease_mongo = Mongo(
        settings.mongo_url, settings.mongo_database, settings.mongo_driver, heartbeat_ms=_LEASE_HEARTBEAT_MS
    )
    cache = Cache(settings.redis_url, read_scripts, prefix=settings.redis_prefix)
    rates = RatesPerMinute(
        settings.sends_per_minute,
        settings.group_changes_per_minute,
        settings.connections_per_minute,
        settings.operations_per_minute,
        settings.workspace_changes_per_minute,
        settings.invite_lookups_per_minute,
    )
    fallback_redis = FallbackRedisServer()
    deployment_clock = DeploymentClock(clock or SystemClock())
    store = build_store(
        mongo,
        cache,
        deployment_clock,
        settings.data_center,
        rates=rates,
        fallback=fallback_redis,
        lease_mongo=lease_mongo,
        has_directory=settings.user_directory,
        blobs=open_blob_store(settings, mongo),
    )
    list_groups = partial(list_shown_groups, store)
    complete = store.channel_sessions.complete
    replayer = Replayer(store.sessions, store.messages, partial(list_readable, store), list_groups, complete)
    hub = UserHub(store.deployment.owner, store.sessions, replayer.since, store.clock)
    bus = Bus(cache, store.keys, store.session_rows, hub, store.users.invalidate, store.locks.wake_waiter)
    ring = ServerRing(hub.server, bus.calls)
    shared_events = SharedEvents(store, hub.server, bus, ring)
    listen_to_nicknames(bus, store.policies)
    revocations = Revocations(store.revocations, bus)
    publisher = EventPublisher(store, bus)
    receipts = ReceiptNotifier(store, publisher)
    viewers = partial(list_message_viewers, store), partial(select_viewers, store)
    threads = ThreadEvents(store, bus, shared_events, partial(list_readers, store))
    delivery = MessageDelivery(store, bus, receipts, shared_events, threads, viewers[1])
    revisions = Revisions(store, delivery, RevisionPublisher(store, bus, shared_events, threads, *viewers))
    pins = PinAnnouncements(store, bus, delivery, shared_events, *viewers)
    reaction_events = ReactionEvents(store, bus, shared_events, *viewers)
    reactions = Reactions(store, delivery)
    reactions.notify = reaction_events.notify
    limits = Limits(
        max_group_members=settings.max_group_members,
        recall_seconds=settings.recall_seconds,
        max_workspaces_per_user=settings.max_workspaces_per_user,
        max_file_bytes=settings.max_file_bytes,
    )
    inspector = Inspector(settings.temp_dir, Scanner(settings.scanner_url) if settings.scanner_url else None)
    preview_fetcher = build_preview_fetcher(
        store,
        inspector,
        allowed_networks=settings.preview_allowed_networks,
        contact=public_url(settings),
        max_picture_bytes=limits.max_file_bytes,
    )
    previews = PreviewWorker(store, revisions, preview_fetcher.find_or_fetch, is_enabled=settings.link_previews)
    ephemeral = EphemeralDelivery(store, hub, bus)
    typing = TypingNotifier(store, bus, ephemeral, shared_events)
    watches = Watches(store.watchers, hub)
    housekeeper = Housekeeper(
        store,
        hub,
        shared_events.hub,
        watches,
        delivery,
        revisions,
        pins,
        reactions,
        previews,
        threads,
        ring,
        settings.data_center,
        inspector.scanner.accepts if inspector.scanner is not None else None,
    )
    work = WorkBudgets(settings.work_per_second, settings.work_budget)
    catch_ups = CatchUps(settings.max_catch_ups_per_user)
    app = Confab(
        store,
        hub,
        bus,
        delivery,
        replayer,
        receipts,
        revisions,
        pins,
        reactions,
        reaction_events,
        previews,
        threads,
        typing,
        publisher,
        shared_events,
        watches,
        limits,
        file_addresses(settings, store.clock, store.deployment),
        work,
        catch_ups,
        inspector=inspector,
    )
    store.policy_changes.completions.announce = partial(announce_change, app)
    query_limits = QueryLimits(
        max_depth=settings.max_query_depth, max_aliases=settings.max_query_aliases, max_nodes=settings.max_query_cost
    )
    engine = Engine(
        app,
        introspection=settings.introspection,
        limits=query_limits,
        document_cpu_share=settings.document_cpu_percent / 100,
        anonymous_cpu_share=settings.anonymous_cpu_percent / 100,
        max_waiting_events_per_user=settings.max_waiting_events_per_user,
    )
    opened, data_is_newer = asyncio.Event(), asyncio.Event()
    migrator = Migrator(mongo)
    opening = [
        asyncio.create_task(
            _open(store, ring, settings.data_center, opened, data_is_newer, migrator if settings.migrate else None)
        ),
        asyncio.create_task(revocations.open()),
    ]
    checking_blobs = asyncio.create_task(check_blob_store(store.blobs))
    # Marks the exception as retrieved: `data_is_newer` signals it if nobody awaits the task.
    opening[0].add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        # Usually this is quick, and the server then answers from its first request on.
        await asyncio.wait(opening, timeout=START_WAIT_SECONDS if start_wait_seconds is None else start_wait_seconds)
        if opening[0].done():
            opening[0].result()
        await bus.open()
        await delivery.open()
        await housekeeper.open()
        await app.inspector.open()
        yield Services(
            engine,
            app,
            preview_fetcher.pictures,
            engine.event_slots,
            housekeeper,
            revocations,
            migrator,
            opened,
            data_is_newer,
            preview_fetcher.outcomes,
        )
    finally:
        await end_tasks([*opening, checking_blobs])
        await migrator.close()
        await revocations.close()
        await housekeeper.close()
        await previews.close()
        preview_fetcher.close()
        await revisions.close()
        await reactions.close()
        await reaction_events.close()
        await delivery.close()
        await threads.close()
        await receipts.close()
        await ephemeral.close()
        await shared_events.close()
        await hub.close()
        await bus.close()
        await app.inspector.close()
        await store.rate_limits.close()
        await store.deployment.indexes.close()
        await _release(store, settings.data_center)
        await store.blobs.close()
        await cache.close()
        await fallback_redis.close()
        await lease_mongo.close()
        await mongo.close()


def file_addresses(settings: Settings, clock: Clock, deployment: Deployment) -> FileAddresses:
    """Return the issuer of addresses of files. It has the keys of the settings, or the deployment's own."""
    previous = [key.get_secret_value().encode() for key in settings.file_address_previous_keys]
    if settings.file_address_key is not None:
        keys = [settings.file_address_key.get_secret_value().encode(), *previous]
        return FileAddresses(public_url(settings), clock, lambda: keys)

    def list_keys() -> list[bytes]:
        own = deployment.file_address_key
        return [own, *previous] if own is not None else []

    return FileAddresses(public_url(settings), clock, list_keys)


async def _open(
    store: Store,
    ring: ServerRing,
    data_center: int,
    opened: asyncio.Event,
    data_is_newer: asyncio.Event,
    migrator: Migrator | None,
) -> None:
    """Prepare indexes, the deployment's name, a worker number and scripts. Retries until both databases answer.

    Raises NewerData.
    """
    pause = 0.1
    while True:
        try:
            await store.deployment.open()
            await store.deployment.worker_numbers.lease(store.ids, data_center)
            ring.update(await store.deployment.worker_numbers.list_ring())
            await store.cache.load_scripts()
            opened.set()
            if migrator is not None:
                migrator.open()
            return
        except NewerData as newer:
            _log.critical("data_version_too_new", reason=str(newer))
            store.deployment.refuse_calls()
            data_is_newer.set()
            raise
        except StoreError as error:
            _log.warning("waiting_for_databases", reason=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)


async def _release(store: Store, data_center: int) -> None:
    try:
        async with asyncio.timeout(_RELEASE_SECONDS):
            await store.deployment.worker_numbers.release(store.ids, data_center)
    except (StoreError, TimeoutError):
        _log.info("worker_number_not_released")
