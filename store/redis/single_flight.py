"""Loads something into the cache once, however many requests ask for it at the same time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from store.base.errors import Unreachable
from store.base.request_user import SharedWork

CLAIM_MS = 10_000
"""Time after which others take over from a process that died while it was loading."""

_TIMEOUT_SECONDS = 12.0
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1


class SingleFlight:
    """Runs at most one task per key in this process. Callers that ask while it runs get its outcome."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the outcome of the running task, or of `work`, which is started if none is running.

        Cancelling a caller does not stop the task for the others.
        """
        task = self._running.get(key)
        if task is None:
            with SharedWork():
                task = asyncio.ensure_future(work())
            self._running[key] = task
            task.add_done_callback(lambda done: self._on_done(key, done))
        return await asyncio.shield(task)

    def _on_done(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()


async def retry_until_true(
    attempt: Callable[[], Awaitable[bool]], reason: str = "another process did not finish loading in time"
) -> None:
    """Repeat an attempt with growing, jittered pauses until it returns true.

    Raises Unreachable with the reason after 12 s.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _TIMEOUT_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while not await attempt():
        if loop.time() > deadline:
            raise Unreachable(reason)
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
