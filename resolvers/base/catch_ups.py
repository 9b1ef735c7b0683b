"""Bounds the catch-ups of each user: how many parts are read at once, and how many are held until they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from resolvers.base.errors import A_MOMENT_MS, RateLimited
from store.base.fair_queue import FairQueue
from store.base.ids import UserId

T = TypeVar("T")

MAX_PARTS_PER_USER = 8
"""Parts of one user's catch-ups that are held at once. A part is held from its read until the client has read it."""

_MAX_PARTS = 256
"""Parts of all users that are held at once, beyond the first one of each user."""

MAX_READS_PER_USER = 2
"""Reads for catch-ups of one user that run at once. They hold connections to the databases."""

_MAX_READS = 32
"""Reads for catch-ups of all users that run at once, beyond the first one of each user."""

_MAX_FIRST_READS = 64
"""Reads that run at once if each is its user's only one."""


def _may_hold(own: int, running: int) -> bool:
    return own == 0 or (own < MAX_PARTS_PER_USER and running < _MAX_PARTS)


def _may_read(own: int, running: int) -> bool:
    return (own < MAX_READS_PER_USER and running < _MAX_READS) or (own == 0 and running < _MAX_FIRST_READS)


class CatchUps:
    """The catch-ups of one process, over all its subscriptions. Users with few of them go before users with many.

    A client that does not read delays only its own user.
    """

    def __init__(self, max_per_user: int = 200) -> None:
        """Create the bounds. A user with `max_per_user` subscriptions that catch up cannot begin another one."""
        self._max_per_user = max_per_user
        self._parts = FairQueue(_may_hold)
        self._reads = FairQueue(_may_read)
        self.refused = 0
        """Subscriptions that were refused so far."""

    @property
    def held(self) -> int:
        """Parts that are being read, or that clients have not read yet."""
        return self._parts.running

    @property
    def waiting(self) -> int:
        """Subscriptions whose next part waits for its turn."""
        return self._parts.waiting

    def check(self, user: UserId) -> None:
        """Check that another subscription of a user may catch up. Raises RateLimited."""
        if self._parts.count_work(user) >= self._max_per_user:
            self.refused += 1
            raise RateLimited(
                f"{self._max_per_user} of your subscriptions are catching up. Please wait for one of them.",
                retry_after_ms=A_MOMENT_MS,
            )

    async def begin_part(self, user: UserId) -> None:
        """Wait until another part may be read for a user. Call `end_part` when the client has read it."""
        await self._parts.enter(user)

    def end_part(self, user: UserId) -> None:
        """Report that the client has read a part, or will never read it."""
        self._parts.leave(user)

    async def read(self, user: UserId, read: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `read`, which runs when it is the user's turn."""
        await self._reads.enter(user)
        try:
            return await read()
        finally:
            self._reads.leave(user)
