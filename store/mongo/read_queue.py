"""Bounds the reads of MongoDB that run at once for one user, and for all users (ADR 52, 53)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from time import perf_counter

from store.base.fair_queue import FairQueue
from store.base.request_user import request_user

MAX_READS_PER_USER = 4
"""Default of the reads of one user that run at once."""

_MAX_READS = 8
"""Reads of all users that run at once, beyond the first one of each user."""

_MAX_FIRST_READS = 32
"""Reads that run at once if each is its user's only one."""

_AGGREGATIONS_WITHOUT_PAUSE = 3
"""Aggregations of a user, one running and the others waiting. A page of 96 messages with receipts has three."""

_LONGEST_PAUSE_SECONDS = 0.05


class ReadQueue:
    """The reads of MongoDB by the operations of one process. The user with the fewest running reads goes first.

    A read waits only while other reads run. Writes never wait here, and neither do reads that belong to no user. An
    aggregation takes MongoDB up to 35 ms of CPU, so those of one user run one after another, and use at most one core.
    While a user has many, a pause as long as the last one follows each.
    """

    def __init__(self, max_per_user: int = MAX_READS_PER_USER) -> None:
        """Create a queue. At most `max_per_user` reads of one user run at once."""
        self._max_per_user = max_per_user
        self._queue = FairQueue(self._may_start)
        self._aggregations = FairQueue(lambda own, _running: own == 0)

    def _may_start(self, own: int, running: int) -> bool:
        return running < (_MAX_READS if own else _MAX_FIRST_READS) and own < self._max_per_user

    @property
    def running(self) -> int:
        """Reads that run."""
        return self._queue.running

    @property
    def waiting(self) -> int:
        """Reads that wait."""
        return self._queue.waiting + self._aggregations.waiting

    async def begin(self, *, is_aggregation: bool = False) -> Callable[[], None] | None:
        """Wait until a read of the current user may start. One aggregation of a user runs at once.

        Returns:
            The function to call once when MongoDB has ended the read; None if the read belongs to no user.
        """
        user = request_user.get()
        if user is None:
            return None
        if not is_aggregation:
            await _enter(self._queue, user)
            return partial(self._queue.leave, user)
        await _enter(self._aggregations, user)
        try:
            await _enter(self._queue, user)
        except BaseException:
            self._aggregations.leave(user)
            raise
        return partial(self._end_aggregation, user, perf_counter())

    def _end_aggregation(self, user: Hashable, began: float) -> None:
        self._queue.leave(user)
        if self._aggregations.count_work(user) > _AGGREGATIONS_WITHOUT_PAUSE:
            pause = min(perf_counter() - began, _LONGEST_PAUSE_SECONDS)
            asyncio.get_running_loop().call_later(pause, self._aggregations.leave, user)
        else:
            self._aggregations.leave(user)


async def _enter(queue: FairQueue, user: Hashable) -> None:
    if not queue.try_enter(user):
        await queue.enter(user)
