"""Decides which operations run and which wait. Users with few running operations go first (ADR 51)."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import suppress

from resolvers.base.errors import A_MOMENT_MS, RateLimited
from server.overload.load_shedding import LoadShedding
from store.base.fair_queue import FairQueue, QueueFull
from subscriptions.transport.engine import RequestRefused, make_error

_LONGEST_WAIT_SECONDS = 3.0
"""Less than the time in which another server expects an answer."""

_CHECK_SECONDS = 0.01

FREE_OPERATIONS = 32
"""While fewer operations run in the process, every operation starts at once."""

_TOO_MANY = "You have too many requests in progress. Please wait for their answers first."


class OperationQueue:
    """The operations of all users of a process, over all transports.

    - A user's first operation starts at once, even if many others run.
    - Up to `max_running_per_user` operations of a user start at once while the limit of load shedding allows it.
    - More start only while the process has little to do. Otherwise they wait, and the user with the fewest running
      operations goes first.
    """

    def __init__(self, load_shedding: LoadShedding, max_running_per_user: int, max_waiting_per_user: int) -> None:
        """Create a queue. If `max_waiting_per_user` operations of a user wait, further ones are refused."""
        self._load_shedding = load_shedding
        self._max_running_per_user = max_running_per_user
        self._queue = FairQueue(self._may_start, max_waiting_per_user)
        load_shedding.active_users = lambda: self.active_users

    def _may_start(self, own: int, running: int) -> bool:
        limit = self._load_shedding.limit
        if own < self._max_running_per_user:
            return own == 0 or running < limit
        return running < FREE_OPERATIONS and running < limit

    @property
    def waiting(self) -> int:
        """Operations that wait."""
        return self._queue.waiting

    @property
    def refused(self) -> int:
        """Operations that were refused so far, because too many of their user waited."""
        return self._queue.refused

    @property
    def active_users(self) -> int:
        """Users with running operations."""
        return self._queue.active_users

    async def enter(self, user: Hashable) -> None:
        """Wait until an operation may start. Raises RequestRefused (RATE_LIMITED) if too many of the user wait."""
        if not self._queue.try_enter(user):
            try:
                await self._queue.enter(user)
            except QueueFull:
                error = make_error(
                    _TOO_MANY, RateLimited.code, retryable=RateLimited.retryable, retryAfterMs=A_MOMENT_MS
                )
                raise RequestRefused([error]) from None
        self._load_shedding.begin_operation()

    async def wait_for(self, user: Hashable) -> None:
        """Wait until no operation of a user runs or waits, at most 3 s: some end only with their connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                while self._queue.count_work(user):  # noqa: ASYNC110  # rare: an event for each end would cost all others
                    await asyncio.sleep(_CHECK_SECONDS)

    def leave(self, user: Hashable) -> None:
        """Report the end of an operation."""
        self._load_shedding.end_operation()
        self._queue.leave(user)
