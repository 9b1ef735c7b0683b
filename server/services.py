"""One process's parts, put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from resolvers.base.app import Confab, Limits
from resolvers.conversations.access import list_readable
from resolvers.messages.revising import list_viewers
from resolvers.users import users
from resolvers.users.callers import Caller
from schema.execution.engine import Engine
from schema.execution.query_limits import QueryLimits
from server.embedded.redis_fallback import FallbackRedisServer
from server.settings import Settings
from store.base.clock import Clock, DeploymentClock, SystemClock
from store.base.errors import StoreError
from store.base.tasks import end_tasks
from store.mongo.client import Mongo
from store.mongo.migrations import Migrator, NewerData
from store.redis.cache import Cache
from store.store import Store, build_store
from store.users.rate_limits import RatesPerMinute
from subscriptions.delivery.housekeeping import Housekeeper
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.revisions import Revisions
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.ephemeral_delivery import EphemeralDelivery
from subscriptions.realtime.hub import Hub
from subscriptions.realtime.replay import Replayer
from subscriptions.realtime.revocations import Revocations
from subscriptions.realtime.typing_notifier import TypingNotifier
from subscriptions.transport.engine import GraphQLEngine

_log = structlog.get_logger()

_CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Services:
    """What the transports use."""

    engine: GraphQLEngine
    app: Confab
    housekeeper: Housekeeper
    revocations: Revocations
    migrator: Migrator
    opened: asyncio.Event
    """Set once indexes are there, a worker number is ours and Redis knows the scripts."""
    refused: asyncio.Event
    """Set once the data turned out to be for a later version, of a database that was away at first. The process is to end."""

    async def sign_in(self, caller: Caller) -> None:
        """The caller's first authenticated request makes the user. Costs nothing after that."""
        await users.sign_in(self.app, caller)

    async def check(self) -> dict[str, str | None]:
        """Which databases answer within two seconds: None, or a short reason why not. And `start`, until this process has all that it
        needs of them once."""
        store = self.app.store
        mongo, redis = await asyncio.gather(_reason(store.mongo.ping()), _reason(store.cache.check_health()))
        found = {"mongodb": mongo, "redis": redis}
        if not self.opened.is_set():
            found["start"] = "not all is there yet that the first requests need"
        return found


async def _reason(probe: Awaitable[object]) -> str | None:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await probe
    except TimeoutError:
        return f"no answer within {_CHECK_SECONDS:g} s"
    except StoreError as error:
        # Anybody may ask; where the databases are is for the log.
        _log.info("a database can't be reached", reason=str(error))
        return "can't be reached"
    return None


@asynccontextmanager
async def open_services(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Services]:
    """The parts, working for the time of the block. A database that can't be reached is waited for in the background."""
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    cache = Cache(settings.redis_url, prefix=settings.redis_prefix)
    rates = RatesPerMinute(
        settings.sends_per_minute,
        settings.group_changes_per_minute,
        settings.connections_per_minute,
        settings.operations_per_minute,
    )
    fallback = FallbackRedisServer()
    told = DeploymentClock(clock or SystemClock())
    store = build_store(mongo, cache, told, settings.data_center, rates=rates, fallback=fallback)
    replayer = Replayer(store.sessions, store.messages, partial(list_readable, store))
    hub = Hub(store.deployment.owner, store.sessions, replayer.since, store.clock)
    bus = Bus(cache, store.keys, store.session_rows, hub, store.users.forget, store.locks.granted)
    revocations = Revocations(store.revocations, bus)
    receipts = ReceiptNotifier(store, bus)
    delivery = MessageDelivery(store, bus, receipts)
    revisions = Revisions(store, bus, delivery, partial(list_viewers, store))
    ephemeral = EphemeralDelivery(store, hub, bus)
    typing = TypingNotifier(store, bus, ephemeral)
    housekeeper = Housekeeper(store, hub, delivery, revisions, settings.data_center)
    limits = Limits(max_group_members=settings.max_group_members, recall_seconds=settings.recall_seconds)
    app = Confab(store, hub, bus, delivery, replayer, receipts, revisions, typing, limits)
    query_limits = QueryLimits(
        max_depth=settings.max_query_depth, max_aliases=settings.max_query_aliases, max_nodes=settings.max_query_cost
    )
    engine = Engine(app, introspection=settings.introspection, limits=query_limits)
    opened, refused = asyncio.Event(), asyncio.Event()
    migrator = Migrator(mongo)
    opening = [
        asyncio.create_task(
            _open(store, settings.data_center, opened, refused, migrator if settings.migrate else None)
        ),
        asyncio.create_task(revocations.open()),
    ]
    # Where nobody waits for it any more, `refused` tells.
    opening[0].add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        # The usual case is quick, and who starts a server wants it to work with its first request.
        await asyncio.wait(opening, timeout=_CHECK_SECONDS)
        if opening[0].done():
            opening[0].result()
        await bus.open()
        await delivery.open()
        await housekeeper.open()
        yield Services(engine, app, housekeeper, revocations, migrator, opened, refused)
    finally:
        await end_tasks(opening)
        await migrator.close()
        await revocations.close()
        await housekeeper.close()
        await revisions.close()
        await delivery.close()
        await receipts.close()
        await ephemeral.close()
        await hub.close()
        await bus.close()
        await store.rate_limits.close()
        await store.deployment.indexes.close()
        await _release(store, settings.data_center)
        await cache.close()
        await fallback.close()
        await mongo.close()


async def _open(
    store: Store, data_center: int, opened: asyncio.Event, refused: asyncio.Event, migrator: Migrator | None
) -> None:
    """Indexes, the deployment's name, a worker number, scripts: until the databases are there. Raises NewerData."""
    pause = 0.1
    while True:
        try:
            await store.deployment.open()
            await store.deployment.lease(store.ids, data_center)
            await store.cache.load_scripts()
            opened.set()
            if migrator is not None:
                migrator.open()
            return
        except NewerData as newer:
            _log.critical("refusing to serve", reason=str(newer))
            store.mongo.refuse_calls()
            refused.set()
            raise
        except StoreError as error:
            _log.warning("waiting for the databases", reason=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)


async def _release(store: Store, data_center: int) -> None:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await store.deployment.release(store.ids, data_center)
    except (StoreError, TimeoutError):
        _log.info("the worker number will free itself")
