"""Connects a process to its databases."""

from __future__ import annotations

from dataclasses import dataclass

from server.blob_store import open_blob_store
from server.embedded.redis_fallback import FallbackRedisServer
from server.settings import Settings
from store.base.clock import Clock, DeploymentClock
from store.build import build_store
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.store import Store
from store.users.rate_limits import RatesPerMinute

_LEASE_HEARTBEAT_MS = 10_000
"""Interval at which the MongoDB client for the lease checks each member. A short one costs CPU on an idle server."""


@dataclass(frozen=True, slots=True)
class Databases:
    """The connections of a process, and the store that uses them."""

    mongo: Mongo
    lease_mongo: Mongo
    """Has its own connections: the lease must be renewed in time, however many operations wait for one."""
    cache: Cache
    fallback_redis: FallbackRedisServer
    store: Store

    async def close(self) -> None:
        """Close all connections."""
        await self.store.blobs.close()
        await self.cache.close()
        await self.fallback_redis.close()
        await self.lease_mongo.close()
        await self.mongo.close()


def connect(settings: Settings, clock: Clock) -> Databases:
    """Return the databases of a process. Sends nothing yet."""
    mongo = Mongo(
        settings.mongo_url,
        settings.mongo_database,
        settings.mongo_driver,
        max_reads_per_user=settings.max_reads_per_user,
    )
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
        settings.webhook_posts_per_minute,
    )
    fallback_redis = FallbackRedisServer()
    store = build_store(
        mongo,
        cache,
        DeploymentClock(clock),
        settings.data_center,
        rates=rates,
        fallback=fallback_redis,
        lease_mongo=lease_mongo,
        has_directory=settings.user_directory,
        blobs=open_blob_store(settings, mongo),
        has_search=settings.search != "off",
        audit_days=settings.audit_days,
        retention_days=settings.retention_days,
    )
    return Databases(mongo, lease_mongo, cache, fallback_redis, store)
