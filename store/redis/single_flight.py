"""Reading a thing into the cache once, however many ask for it at the same time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from store.base.errors import Unreachable

CLAIM_MS = 10_000
"""How long the claim of a process that died while loading keeps others waiting."""

_PATIENCE_SECONDS = 12.0
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1


class SingleFlight:
    """At most one run of a piece of work for each key in this process; all who ask meanwhile get its outcome."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, work: Callable[[], Awaitable[Any]]) -> Any:
        """The outcome of work, run now or under way. A caller that is cancelled does not stop it for the others."""
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(work())
            self._running[key] = task
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def _ended(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()


async def until_settled(
    attempt: Callable[[], Awaitable[bool]], otherwise: str = "another process did not finish loading in time"
) -> None:
    """Repeats attempt with growing, jittered pauses until it answers true. Raises Unreachable when it never does, and says
    why."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while not await attempt():
        if loop.time() > deadline:
            raise Unreachable(otherwise)
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
