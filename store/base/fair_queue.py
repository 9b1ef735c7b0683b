"""A queue that serves users with little running work before users with much."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable

MayStart = Callable[[int, int], bool]
"""Returns whether work may start. Arguments: how much work of its user runs, and how much work runs in all.

If it is true for two numbers, it is also true for smaller ones.
"""


class QueueFull(Exception):
    """Raised when too much work of a user waits."""


class FairQueue:
    """Admits work of users. The user with the least running work goes first; equal users take turns.

    Work that may start at once does not wait. Each user's work is admitted in order.
    """

    def __init__(self, may_start: MayStart, max_waiting_per_user: int | None = None) -> None:
        """Create a queue. At most `max_waiting_per_user` entries of one user wait, more are refused; None: no bound."""
        self._may_start = may_start
        self._max_waiting = max_waiting_per_user
        self._running: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self.running = 0
        """Work that was admitted and has not ended."""
        self.waiting = 0
        """Work that waits."""
        self.refused = 0
        """Work that was refused so far."""

    @property
    def active_users(self) -> int:
        """The number of users with running work."""
        return len(self._running)

    def count_work(self, user: Hashable) -> int:
        """Return how much work of a user runs or waits."""
        return self._running.get(user, 0) + len(self._waiting.get(user, ()))

    def try_enter(self, user: Hashable) -> bool:
        """Admit work if it may start at once. Otherwise return False and count nothing."""
        own = self._running.get(user, 0)
        if not self._may_start(own, self.running) or (self.waiting and user in self._waiting):
            return False
        self._running[user] = own + 1
        self.running += 1
        return True

    async def enter(self, user: Hashable) -> None:
        """Wait until work may start. Raises QueueFull, at once, if too much work of the user waits."""
        if self.try_enter(user):
            return
        queue = self._waiting.get(user)
        if self._max_waiting is not None and len(queue or ()) >= self._max_waiting:
            self.refused += 1
            raise QueueFull
        if queue is None:
            queue = self._waiting[user] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.waiting += 1
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                # The work was admitted just before its task was cancelled.
                self.leave(user)
            else:
                self._stop_waiting(user, turn)
            raise

    def leave(self, user: Hashable) -> None:
        """Report the end of admitted work, and admit work that waits."""
        left = self._running[user] - 1
        if left:
            self._running[user] = left
        else:
            del self._running[user]
        self.running -= 1
        if self.waiting:
            self.admit_waiting()

    def admit_waiting(self) -> None:
        """Admit waiting work that may start. Call it when `may_start` has become less strict."""
        while self._waiting:
            # Users are in the order in which they were last served.
            user = min(self._waiting, key=lambda each: self._running.get(each, 0))
            own = self._running.get(user, 0)
            if not self._may_start(own, self.running):
                return
            queue = self._waiting.pop(user)
            turn = queue.popleft()
            if queue:
                self._waiting[user] = queue
            self.waiting -= 1
            if not turn.done():
                self._running[user] = own + 1
                self.running += 1
                turn.set_result(None)

    def _stop_waiting(self, user: Hashable, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(user)
        if queue is not None and turn in queue:
            queue.remove(turn)
            self.waiting -= 1
            if not queue:
                del self._waiting[user]
