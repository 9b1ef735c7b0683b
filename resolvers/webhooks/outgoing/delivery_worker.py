"""Delivers the events of outgoing webhooks: each webhook by one process at a time (ADR 90)."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from resolvers.web_requests.addresses import AddressRules, Resolve
from resolvers.webhooks.outgoing.deliverer import Deliverer, Delivering, deliver_or_log
from resolvers.webhooks.outgoing.endpoint import ANSWER_SECONDS, Endpoints
from resolvers.webhooks.outgoing.payloads import Payloads
from store.base.background import mark_as_background
from store.base.errors import StoreError
from store.base.repeated_work import RepeatedWork
from store.base.tasks import end_tasks
from store.store import Store
from store.webhooks.delivery_store import LEASE_MS
from store.webhooks.webhook import WebhookId
from subscriptions.delivery.webhooks.log_writer import NEW_EVENTS
from subscriptions.realtime.bus import Bus

_log = structlog.get_logger()

INTERVAL_SECONDS = 1.0
"""Interval at which each worker looks for events that are due. New ones are announced on the bus."""

_RENEW_SECONDS = 4.0

MARGIN_SECONDS = 2.0
"""Nothing is sent in the last part of a lease: an attempt begins before another process may begin."""

WEBHOOKS_AT_ONCE = 100
"""Webhooks that one process delivers to at the same time."""

SLOW_AT_ONCE = 50
"""Webhooks among them whose endpoint is slow or does not answer: if there are more, they leave places to others."""

TURN_SECONDS = 20.0
"""Time after which a webhook with many events lets others have its place, if all places are taken."""


_REMOVAL_SECONDS = 1.0


class DeliveryWorker:
    """Runs in processes that do background work."""

    def __init__(
        self, store: Store, bus: Bus, rules: AddressRules, resolve: Resolve, *, seconds: float = ANSWER_SECONDS
    ) -> None:
        """Create it, and listen to frames on the bus.

        Args:
            store: The store.
            bus: Announces new events.
            rules: Addresses that may be connected to.
            resolve: Resolves their hosts.
            seconds: Time limit of an attempt.
        """
        self._store = store
        self._deliveries = store.webhook_deliveries
        self.outcomes: Counter[str] = Counter()
        """Attempts of this process, by outcome."""
        self._slow: set[WebhookId] = set()
        """See `Delivering`."""
        self._parts = Delivering(
            store, Endpoints(rules, resolve, seconds), Payloads(store), random.Random(), self.outcomes, self._slow, {}
        )
        self._running: dict[WebhookId, asyncio.Task[None]] = {}
        self._leased_until: dict[WebhookId, float] = {}
        """End of each lease by the monotonic clock, from before it was taken or renewed."""
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._again: set[WebhookId] = set()
        """Webhooks that got events while they were delivered."""
        bus.on_frame(NEW_EVENTS, self._receive)

    @property
    def running(self) -> int:
        """Webhooks that this process delivers to at present."""
        return len(self._running)

    def open(self) -> None:
        """Start to deliver in the background."""
        self._tasks = [
            asyncio.create_task(self._repeat(seconds, name, work))
            for seconds, name, work in (
                (INTERVAL_SECONDS, "delivery", self.deliver_due),
                (_RENEW_SECONDS, "leases", self._renew),
                (_REMOVAL_SECONDS, "removals", self.remove_deleted),
            )
        ]

    async def close(self) -> None:
        """Stop, and give all leases back. Attempts that run are cut off: their events are sent again."""
        await end_tasks(self._tasks)
        await end_tasks(self._running.values())
        await asyncio.gather(*(self._release(id) for id in list(self._leased_until)), return_exceptions=True)
        await self._parts.endpoints.close()

    def wake(self) -> None:
        """Look for due events soon."""
        self._wake.set()

    async def deliver_due(self) -> None:
        """Begin to deliver to the webhooks with due events that no process delivers to. Raises StoreError."""
        known = self._store.webhook_registry.webhooks
        candidates = [id for id in known if id not in self._running]
        if not candidates or len(self._running) >= WEBHOOKS_AT_ONCE:
            return
        found = await self._deliveries.list_free(candidates, self._store.clock.now_ms())
        self._parts.chance.shuffle(found)
        self._slow.intersection_update(known)
        for id in found:
            if len(self._running) >= WEBHOOKS_AT_ONCE:
                break
            if id in self._slow and self._count_slow() >= SLOW_AT_ONCE:
                continue
            began = time.monotonic()
            if await self._deliveries.take_lease(id):
                self._leased_until[id] = began + LEASE_MS / 1000
                self._running[id] = asyncio.create_task(self._deliver(id))

    async def remove_deleted(self) -> None:
        """Remove some events of deleted webhooks, and the row of those that have none. Raises StoreError."""
        for id in await self._store.webhooks.list_deleted(10):
            if not await self._deliveries.remove_some(id):
                await self._store.webhooks.remove(id)

    async def _deliver(self, id: WebhookId) -> None:
        mark_as_background()
        try:
            end = time.monotonic() + TURN_SECONDS

            def is_turn() -> bool:
                if id in self._slow and self._count_slow() > SLOW_AT_ONCE:
                    return False
                return time.monotonic() < end or len(self._running) < WEBHOOKS_AT_ONCE

            deliverer = Deliverer(self._parts, id, lambda: self._has_lease(id), is_turn)
            while True:
                self._again.discard(id)
                await deliver_or_log(deliverer, id)
                if id not in self._again or not self._has_lease(id) or not is_turn():
                    break
        finally:
            await self._release(id)
            self._running.pop(id, None)
            if id in self._again:
                self._wake.set()

    def _count_slow(self) -> int:
        return sum(id in self._slow for id in self._running)

    def _has_lease(self, id: WebhookId) -> bool:
        return time.monotonic() < self._leased_until.get(id, 0.0) - MARGIN_SECONDS

    async def _release(self, id: WebhookId) -> None:
        if self._leased_until.pop(id, None) is not None:
            try:
                await self._deliveries.release_lease(id)
            except StoreError as error:
                _log.info("webhook_lease_not_released", webhook=id, reason=str(error))

    async def _renew(self) -> None:
        ids = list(self._running)
        if not ids:
            return
        began = time.monotonic()
        kept = await self._deliveries.renew_leases(ids)
        for id in ids:
            if id in kept and id in self._leased_until:
                self._leased_until[id] = began + LEASE_MS / 1000
            elif id in self._running:
                self._leased_until.pop(id, None)

    def _receive(self, body: Sequence[Any]) -> None:
        known = self._store.webhook_registry.webhooks
        ids = [WebhookId(id) for id in body]
        self._again.update(id for id in ids if id in self._running)
        if any(id in known for id in ids):
            self._wake.set()

    async def _repeat(self, seconds: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
        mark_as_background()
        repeated = RepeatedWork(name, work, "webhooks_not_delivered")
        while True:
            await self._pause(seconds, can_wake=work == self.deliver_due)
            await repeated.run()

    async def _pause(self, seconds: float, *, can_wake: bool) -> None:
        if not can_wake:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
