"""Mutations run to their end once they have begun, even if the client has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from subscriptions.transport.engine import Json


class ShieldedMutations:
    """Running mutations of requests over HTTP and event streams."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Json]] = set()

    def start(self, execution: Coroutine[Any, Any, Json]) -> asyncio.Task[Json]:
        """Run a mutation in its own task. Callers that wait for the task shield it from cancellation."""
        task = asyncio.create_task(execution)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Json]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Marks the exception as retrieved: the client may have disconnected.

    async def wait(self) -> None:
        """Wait for all running mutations. They continue if the wait is cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks)
