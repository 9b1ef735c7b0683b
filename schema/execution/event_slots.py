"""Bounds the work for events of each user: how many are executed at once, and how many wait."""

from __future__ import annotations

import asyncio
from time import thread_time

from schema.execution.slices import Slices
from store.base.fair_queue import FairQueue
from store.base.ids import UserId

MAX_RUNNING_PER_USER = 4
"""Events of one user that are executed at once. Executions that read hold connections to the databases."""

MAX_RUNNING = 64
"""Events of all users that are executed at once, beyond the first one of each user."""

_MAX_RUNNING_FIRST = 128
"""Events that are executed at once if each is its user's only one."""

_BURST_SECONDS = 0.01
"""CPU time that executions for one user may take before other tasks of the event loop run."""


def _may_start(own: int, running: int) -> bool:
    return (own < MAX_RUNNING_PER_USER and running < MAX_RUNNING) or (own == 0 and running < _MAX_RUNNING_FIRST)


class EventSlots:
    """The executions of events in one process, over all its subscriptions.

    An execution starts at once while few of its user run. Otherwise it waits, so that operations find free
    connections to the databases, and so that events for other users are not delayed.
    """

    def __init__(self, slices: Slices, max_waiting_per_user: int) -> None:
        """Create slots. Further events of a user with `max_waiting_per_user` unrendered ones are not rendered."""
        self._slices = slices
        self._max_waiting = max_waiting_per_user
        self._queue = FairQueue(_may_start)
        self._waiting: dict[UserId, int] = {}
        self._spent: dict[UserId, float] = {}
        self._burst_began = 0.0
        self.dropped = 0
        """Events that were not rendered because too many waited."""

    @property
    def running(self) -> int:
        """Executions that have begun and not ended."""
        return self._queue.running

    @property
    def waiting(self) -> int:
        """Events that wait to be rendered, one per subscription."""
        return sum(self._waiting.values())

    def try_start(self, user: UserId) -> bool:
        """Begin an execution for a user, if it may start now."""
        if self._spent and self._spent.get(user, 0.0) > _BURST_SECONDS and self._used_cpu():
            return False
        return self._queue.try_enter(user)

    async def start(self, user: UserId) -> None:
        """Begin an execution for a user as soon as it may start."""
        await self._queue.enter(user)
        try:
            await self._slices.next(user)
        except BaseException:
            self._queue.leave(user)
            raise

    def end(self, user: UserId) -> None:
        """End an execution."""
        self._queue.leave(user)

    def count_time(self, user: UserId, seconds: float) -> None:
        """Count the time that an execution has taken without awaiting anything."""
        if not self._spent:
            self._burst_began = thread_time()
            asyncio.get_running_loop().call_soon(self._spent.clear)
        self._spent[user] = self._spent.get(user, 0.0) + seconds

    def _used_cpu(self) -> bool:
        # Reading CPU time is slow. Elapsed time, which is counted for each execution, includes that of other processes.
        return thread_time() - self._burst_began > _BURST_SECONDS

    def count_executions(self, user: UserId) -> int:
        """Return how many executions of a user run or wait."""
        return self._queue.count_work(user)

    def add_waiting(self, user: UserId, *, may_drop: bool) -> bool:
        """Count an event that a subscriber waits for. Return False if it has to be dropped."""
        waiting = self._waiting.get(user, 0)
        if may_drop and waiting >= self._max_waiting:
            self.dropped += 1
            return False
        self._waiting[user] = waiting + 1
        return True

    def remove_waiting(self, user: UserId) -> None:
        """Report the end of an event's wait."""
        left = self._waiting[user] - 1
        if left:
            self._waiting[user] = left
        else:
            del self._waiting[user]
