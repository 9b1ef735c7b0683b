"""What a server does by itself: finishes what dead servers left, holds its worker number, notices a lost Redis, keeps routes alive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from store.base.errors import StoreError
from store.base.ids import PARTITIONS
from store.base.tasks import end_tasks
from store.messages.message import ReservedMessage
from store.messages.revision_store import Revision
from store.redis.cache import Call
from store.store import Store
from subscriptions.delivery.loss_recovery import LossRecovery
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.revisions import Revisions
from subscriptions.realtime.hub import Hub

_log = structlog.get_logger()

TAKEOVER_MS = 5_000
"""How long a message, or its revision, waits in the outbox until somebody else than the server that put it there finishes it."""

_SLICES = 4
_ENTRIES = 100


class Housekeeper:
    """Periodic work of one server."""

    def __init__(
        self, store: Store, hub: Hub, delivery: MessageDelivery, revisions: Revisions, data_center: int
    ) -> None:
        self._store = store
        self._hub = hub
        self._delivery = delivery
        self._revisions = revisions
        self._mender = LossRecovery(store, delivery)
        self._data_center = data_center
        self._tasks: list[asyncio.Task[None]] = []
        self._slice = 0
        self._closing = False
        self._epoch = ""

    async def open(self) -> None:
        """Starts. A database that can't be reached is tried again."""
        self._epoch = self._store.deployment.redis_epoch
        self._tasks = [
            asyncio.create_task(self._every(seconds, name, work))
            for seconds, name, work in (
                (1.0, "redis", self.check_redis),
                (1.0, "outbox", self._sweep_slice),
                (15.0, "lease", self._lease),
                (1.0, "mend", self._mender.mend),
                (30.0, "routes", self._hub.renew_routes),
                (0.2, "mutes", self._hub.end_mutes),
            )
        ]

    async def close(self) -> None:
        """Stops."""
        self._closing = True
        await end_tasks(self._tasks)

    async def check_redis(self) -> None:
        """Where Redis lost what it held, every subscriber here is made whole again."""
        # Others look too, and may have seen it first: what counts is whether it changed since this one looked.
        await self._store.deployment.check_redis()
        epoch, self._epoch = self._epoch, self._store.deployment.redis_epoch
        if epoch and epoch != self._epoch:
            _log.warning("Redis lost what it held; states are loaded anew as they are asked for")
            self._hub.resync()
        await self._store.stale_caches.invalidate()

    async def sweep(self, partitions: range, idle_ms: int) -> int:
        """Finishes what has been in the outboxes of partitions for longer than idle_ms. Answers how many messages, new and
        revised ones, that were."""
        found = await self._store.outbox.list_waiting(partitions, idle_ms, _ENTRIES)
        reservations = [entry for entry in found if isinstance(entry, ReservedMessage)]
        left = [reserved for reserved in reservations if self._delivery.find(reserved.message.id) is None]
        if left:
            _log.warning("finishing messages that were left in the outbox", messages=len(left))
            await asyncio.gather(
                *(self._delivery.send(reserved, recovered=True) for reserved in left), return_exceptions=True
            )
        revised = 0
        for entry in found:
            if isinstance(entry, Revision):
                revised += await self._revisions.finish(entry)
        return len(left) + revised

    async def _sweep_slice(self) -> None:
        self._store.cache.require_shared()
        # One server at a time looks, a quarter of the partitions a second.
        taken = await self._store.cache.one(
            Call("SET", (self._store.keys.sweeper_lock,), (self._hub.server, "NX", "PX", 900))
        )
        if taken is None:
            return
        size = PARTITIONS // _SLICES
        first, self._slice = self._slice * size, (self._slice + 1) % _SLICES
        await self.sweep(range(first, first + size), TAKEOVER_MS)

    async def _lease(self) -> None:
        await self._store.deployment.lease(self._store.ids, self._data_center)

    async def _every(self, seconds: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
        failing = False
        while not self._closing:
            await asyncio.sleep(seconds)
            try:
                await work()
                failing = False
            except StoreError as error:
                if not failing:
                    _log.warning("housekeeping failed, will try again", work=name, reason=str(error))
                failing = True
            except Exception:
                _log.exception("housekeeping failed", work=name)
