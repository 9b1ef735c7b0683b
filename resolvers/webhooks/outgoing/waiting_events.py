"""Figures about pending events of outgoing webhooks, for metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from store.base.background import mark_as_background
from store.base.errors import StoreError
from store.base.tasks import end_tasks
from store.store import Store
from store.webhooks.delivery_store import Waiting

_log = structlog.get_logger()

INTERVAL_SECONDS = 15.0

MOST_COUNTED = 100_000
"""Counting stops at this number of events."""


class WaitingEvents:
    """The figures, measured every 15 s in the process that writes the log; 0 in all others."""

    def __init__(self, store: Store, is_measuring: Callable[[], bool]) -> None:
        self._store = store
        self._is_measuring = is_measuring
        self._task: asyncio.Task[None] | None = None
        self.events = 0
        """Pending events, those of PAUSED webhooks included."""
        self.oldest_ms: int | None = None
        """When the oldest of them happened (ms); None: there are none."""
        self.paused = 0
        """PAUSED webhooks."""

    def open(self) -> None:
        """Start to measure in the background."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None

    async def measure(self) -> None:
        """Read the figures. Raises StoreError."""
        webhooks = self._store.webhook_registry.webhooks
        waiting, self.paused = Waiting(0, None), 0
        if webhooks and self._is_measuring():
            deliveries = self._store.webhook_deliveries
            waiting = await deliveries.measure(list(webhooks), MOST_COUNTED)
            self.paused = await deliveries.count_paused()
        self.events, self.oldest_ms = waiting

    async def _run(self) -> None:
        mark_as_background()
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.measure()
            except StoreError as error:
                _log.info("webhook_events_not_counted", reason=str(error))
            except Exception:
                _log.exception("webhook_events_not_counted")
