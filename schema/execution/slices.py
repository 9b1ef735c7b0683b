"""Slices of long executions: one at a time, and users take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from time import perf_counter

from store.base.fair_queue import FairQueue

_LONGEST_PAUSE_SECONDS = 0.005
"""Longest pause after a slice."""


class OperationInProgress:
    """Context manager that counts an operation of a user as in progress."""

    __slots__ = ("_operations", "_user")

    def __init__(self, operations: dict[Hashable, int], user: Hashable) -> None:
        self._operations = operations
        self._user = user

    def __enter__(self) -> None:
        """Begin to count."""
        self._operations[self._user] = self._operations.get(self._user, 0) + 1

    def __exit__(self, *_: object) -> None:
        """Stop counting."""
        left = self._operations[self._user] - 1
        if left:
            self._operations[self._user] = left
        else:
            del self._operations[self._user]


class Slices:
    """Decides which long execution of the process continues next.

    Between two slices the event loop runs all other tasks twice. While operations of several users are in progress,
    each slice is followed by a pause of the same length. A short operation waits for the databases several times:
    without pauses it might wait for a slice each time.
    """

    def __init__(self) -> None:
        self._queue = FairQueue(lambda own, running: running == 0)
        self._operations: dict[Hashable, int] = {}

    def operation(self, user: Hashable) -> OperationInProgress:
        """Return the context in which an operation of a user is executed."""
        return OperationInProgress(self._operations, user)

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
        asyncio.get_running_loop().call_soon(self._end, user, perf_counter())

    def _end(self, user: Hashable, began: float) -> None:
        if len(self._operations) > 1:
            pause = min(perf_counter() - began, _LONGEST_PAUSE_SECONDS)
            asyncio.get_running_loop().call_later(pause, self._queue.leave, user)
        else:
            self._queue.leave(user)
