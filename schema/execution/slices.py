"""Slices of long executions: one at a time, and users take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from store.base.fair_queue import FairQueue


class Slices:
    """Decides which long execution of the process continues next.

    Between two slices the event loop runs all other tasks twice. So a short operation is delayed by few slices, even if
    there are many long executions.
    """

    def __init__(self) -> None:
        self._queue = FairQueue(lambda own, running: running == 0)

    async def next(self, user: Hashable) -> None:
        """Wait for the next slice of one of the user's executions. It lasts until its task awaits something."""
        if self._queue.try_enter(user):
            try:
                await asyncio.sleep(0)
            except BaseException:
                self._queue.leave(user)
                raise
        else:
            await self._queue.enter(user)
        asyncio.get_running_loop().call_soon(self._queue.leave, user)
