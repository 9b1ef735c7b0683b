"""How often each user may do what: so many a minute, half of them at once, over all servers.

A user's rate is one number: when all that they did will have been made up for (the generic cell rate algorithm). Each server decides
on the number it knows, without asking anybody, and has Redis count what it let through, a few at a time, beside the requests. What
Redis answers holds what other servers let through. So nothing waits for a limit and what is refused was never begun; in the long
run a user gets their rate however many servers they use; and where Redis is away, each server keeps to it alone (ADR 23).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from store.base.errors import StoreError
from store.base.ids import UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_MOST_USERS = 50_000
"""Whom a server remembers, of each rate. Who is forgotten begins with what Redis knows of them."""

_COUNTED_AT_ONCE = 16
"""What one server lets a user do at the most before the others can know of it."""


@dataclass(slots=True)
class _Spent:
    """until: monotonic seconds at which all of it will have been made up for. uncounted: what Redis was not told of yet."""

    until: float
    uncounted: int = 0


class RateLimit:
    """One kind of thing that users do. `per_minute` 0: as often as they like."""

    def __init__(
        self, cache: Cache, keys: Keys, kind: str, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache = cache
        self._keys = keys
        self._kind = kind
        self._clock = clock
        self._each = 60.0 / per_minute if per_minute else 0.0
        self._burst = max(1, per_minute // 2)
        self._counted_at_once = max(1, min(_COUNTED_AT_ONCE, self._burst // 16))
        self._users: OrderedDict[UserId, _Spent] = OrderedDict()
        self._counting: set[asyncio.Task[None]] = set()

    def take(self, user: UserId) -> int:
        """0 where the user may do it once more, which counts from now on. Else nothing is counted, and this is in how many
        milliseconds they may. To be called while a loop runs."""
        if not self._each:
            return 0
        now = self._clock()
        spent = self._users.get(user)
        if spent is None:
            spent = self._users[user] = _Spent(now)
            if len(self._users) > _MOST_USERS:
                self._users.popitem(last=False)
        else:
            self._users.move_to_end(user)
        until = max(spent.until, now) + self._each
        wait = until - now - self._burst * self._each
        if wait > 1e-6:
            return int(wait * 1000) + 1
        spent.until = until
        spent.uncounted += 1
        if spent.uncounted >= self._counted_at_once:
            counted, spent.uncounted = spent.uncounted, 0
            task = asyncio.create_task(self._count(user, spent, counted))
            self._counting.add(task)
            task.add_done_callback(self._counting.discard)
        return 0

    async def settle(self) -> None:
        """Returns once Redis knows all that it is being told now."""
        if self._counting:
            await asyncio.wait(self._counting)

    async def _count(self, user: UserId, spent: _Spent, count: int) -> None:
        call = Call("count_rate", (self._keys.of_user(user, f"rate:{self._kind}"),), (round(self._each * 1e6), count))
        try:
            (ahead_us,) = await self._cache.run_in_background([call])
        except StoreError:
            # What this server knows holds.
            return
        spent.until = max(spent.until, self._clock() + ahead_us / 1e6)


@dataclass(frozen=True, slots=True)
class RatesPerMinute:
    """How often a user may do what, a minute; half of that at once. 0: as often as they like."""

    sends: int = 0
    group_changes: int = 0
    connections: int = 0
    operations: int = 0


class RateLimits:
    """All that is limited."""

    def __init__(self, cache: Cache, keys: Keys, rates: RatesPerMinute) -> None:
        self.sends = RateLimit(cache, keys, "sends", rates.sends)
        """Messages sent, edited and recalled."""
        self.group_changes = RateLimit(cache, keys, "group_changes", rates.group_changes)
        self.connections = RateLimit(cache, keys, "connections", rates.connections)
        """WebSockets and event streams opened."""
        self.operations = RateLimit(cache, keys, "operations", rates.operations)
        """Queries, mutations and subscriptions begun, whatever they ask for."""

    async def close(self) -> None:
        """Returns once Redis knows what it is being told."""
        for limit in (self.sends, self.group_changes, self.connections, self.operations):
            await limit.settle()
