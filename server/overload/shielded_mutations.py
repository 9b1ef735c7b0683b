"""Mutations that have begun run to their end, also when the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from subscriptions.transport.engine import Json


class ShieldedMutations:
    """Those at work, over HTTP and server-sent events."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Json]] = set()

    def begin(self, execution: Coroutine[Any, Any, Json]) -> asyncio.Task[Json]:
        """A task of its own. Whoever waits for it shields it."""
        task = asyncio.create_task(execution)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Json]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Where nobody waits any more, it counts as seen.

    async def end(self) -> None:
        """Waits for them. They go on where the wait is cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks)
