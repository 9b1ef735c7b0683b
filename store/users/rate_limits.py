"""Rate limits: how often each user may do something, over all servers.

A user may take N actions per minute, half of them at once (the generic cell rate algorithm). The state of a rate is one
number: the time at which the user's budget is full again. Each server decides with the number it has, without a round
trip, and then counts the allowed actions in Redis, several at a time. Redis's answer includes the actions that other
servers allowed. So no request waits for a limit, and a refused request was never begun. In the long run a user gets
their rate however many servers they use. While Redis is unavailable, each server limits alone (ADR 23).
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

_MAX_USERS = 50_000
"""Users that a server remembers for each rate. Forgotten users begin with a full budget until Redis answers."""

_MAX_COUNTED_AT_ONCE = 16
"""Largest number of a user's actions that one server allows before it counts them in Redis."""


@dataclass(slots=True)
class _Budget:
    """`full_at`: monotonic seconds at which it is full again. `uncounted`: actions not counted in Redis yet."""

    full_at: float
    uncounted: int = 0


class RateLimit:
    """The limit of one kind of action. `per_minute` 0: no limit."""

    def __init__(
        self, cache: Cache, keys: Keys, kind: str, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache = cache
        self._keys = keys
        self._kind = kind
        self._clock = clock
        self._cost_seconds = 60.0 / per_minute if per_minute else 0.0
        self._burst = max(1, per_minute // 2)
        self._counted_at_once = max(1, min(_MAX_COUNTED_AT_ONCE, self._burst // 16))
        self._budgets: OrderedDict[UserId, _Budget] = OrderedDict()
        self._counting: set[asyncio.Task[None]] = set()

    def count(self, user: UserId) -> int:
        """Count an action and return 0, or return the time to wait in ms: then nothing is counted.

        Needs a running event loop.
        """
        if not self._cost_seconds:
            return 0
        now = self._clock()
        budget = self._budgets.get(user)
        if budget is None:
            budget = self._budgets[user] = _Budget(now)
            if len(self._budgets) > _MAX_USERS:
                self._budgets.popitem(last=False)
        else:
            self._budgets.move_to_end(user)
        full_at = max(budget.full_at, now) + self._cost_seconds
        wait_seconds = full_at - now - self._burst * self._cost_seconds
        if wait_seconds > 1e-6:
            return int(wait_seconds * 1000) + 1
        budget.full_at = full_at
        budget.uncounted += 1
        if budget.uncounted >= self._counted_at_once:
            counted, budget.uncounted = budget.uncounted, 0
            task = asyncio.create_task(self._count_in_redis(user, budget, counted))
            self._counting.add(task)
            task.add_done_callback(self._counting.discard)
        return 0

    async def settle(self) -> None:
        """Wait until Redis has counted what is being sent to it."""
        if self._counting:
            await asyncio.wait(self._counting)

    async def _count_in_redis(self, user: UserId, budget: _Budget, count: int) -> None:
        key = self._keys.of_user(user, f"rate:{self._kind}")
        call = Call("count_rate", (key,), (round(self._cost_seconds * 1e6), count))
        try:
            (ahead_us,) = await self._cache.run_in_background([call])
        except StoreError:
            # The server's own number remains valid.
            return
        budget.full_at = max(budget.full_at, self._clock() + ahead_us / 1e6)


@dataclass(frozen=True, slots=True)
class RatesPerMinute:
    """Actions that a user may take per minute; half of them at once. 0: no limit."""

    sends: int = 0
    group_changes: int = 0
    connections: int = 0
    operations: int = 0
    workspace_changes: int = 0
    invite_lookups: int = 0
    webhook_posts: int = 0


class RateLimits:
    """All rate limits of a process.

    `sends`: messages sent, edited and recalled, uploads sent and changed. `connections`: WebSockets and event streams
    opened. `operations`: queries, mutations and subscriptions begun. `webhook_posts`: requests to an incoming webhook,
    counted for its user.
    """

    def __init__(self, cache: Cache, keys: Keys, rates: RatesPerMinute) -> None:
        self.sends = RateLimit(cache, keys, "sends", rates.sends)
        self.group_changes = RateLimit(cache, keys, "group_changes", rates.group_changes)
        self.connections = RateLimit(cache, keys, "connections", rates.connections)
        self.operations = RateLimit(cache, keys, "operations", rates.operations)
        self.workspace_changes = RateLimit(cache, keys, "workspace_changes", rates.workspace_changes)
        self.invite_lookups = RateLimit(cache, keys, "invite_lookups", rates.invite_lookups)
        self.webhook_posts = RateLimit(cache, keys, "webhook_posts", rates.webhook_posts)

    async def close(self) -> None:
        """Wait until Redis has counted what is being sent to it."""
        for limit in (
            self.sends,
            self.group_changes,
            self.connections,
            self.operations,
            self.workspace_changes,
            self.invite_lookups,
            self.webhook_posts,
        ):
            await limit.settle()
