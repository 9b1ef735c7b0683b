"""Work budgets: how much of a process each user may use, over all their connections.

Work is measured in units. A value of a response is one unit; `schema.execution.work` says what else costs. A user's
budget is refilled continuously, up to its size. The state of a budget is one number: the time at which it is full
again. Unlike the rates in `store.users.rate_limits`, each process counts for itself: a budget protects the process.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from resolvers.base.errors import RateLimited
from store.base.ids import UserId

_CLEANED_AT_ONCE = 4
"""Users that are checked, and removed if their budget is full, whenever another user is added."""

_OVERDRAFT = 2
"""Events are refused only after this many budgets, so that operations alone do not end subscriptions."""


class WorkBudgets:
    """The budgets of all users of a process."""

    def __init__(self, per_second: int = 0, size: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """Create budgets of `size` units that are refilled with `per_second` units. 0 units per second: no limit."""
        self.per_second = per_second
        self.size = max(size, per_second)
        self.refused = 0
        """Operations, subscriptions and events that were refused so far."""
        self._clock = clock
        self._full_at: OrderedDict[UserId, float] = OrderedDict()
        """Monotonic seconds at which a budget is full again. Budgets that are missing are full."""

    @property
    def has_limit(self) -> bool:
        """True if users have budgets."""
        return self.per_second > 0

    def take(self, user: UserId, units: int) -> None:
        """Take units for work that begins. Work that costs more than a whole budget needs a full one.

        Raises:
            RateLimited: The budget has fewer units. Nothing was taken; `retry_after_ms` is the time until it has them.
        """
        if not self.per_second:
            return
        wait_ms = self._wait_ms(user, units)
        if wait_ms:
            self.refused += 1
            raise RateLimited(
                f"This costs {units:,} units of work, and you have {self.remaining(user):,} left: your budget of "
                f"{self.size:,} is refilled with {self.per_second:,} a second. Please try again later.",
                retry_after_ms=wait_ms,
            )
        self.charge(user, units)

    def charge(self, user: UserId, units: int) -> None:
        """Take units for work that was done, also if the budget has fewer; a negative number gives units back."""
        if not self.per_second or not units:
            return
        now = self._clock()
        full_at = max(self._full_at.get(user, now), now) + units / self.per_second
        if user not in self._full_at:
            self._forget_full(now)
        self._full_at[user] = full_at

    def remaining(self, user: UserId) -> int:
        """Return the units that are left in a user's budget."""
        return max(0, self.size - round(self.seconds_until_full(user) * self.per_second))

    def seconds_until_full(self, user: UserId) -> float:
        """Return the time after which a user's budget is full if they use nothing."""
        now = self._clock()
        return max(0.0, self._full_at.get(user, now) - now)

    def check_events(self, user: UserId) -> None:
        """Check that a user's budget allows another event to be rendered. Raises RateLimited.

        Only events can make the check fail, because operations are refused earlier.
        """
        if self.per_second and self.seconds_until_full(user) * self.per_second > self.size * _OVERDRAFT:
            self.refused += 1
            raise RateLimited(
                f"The events of your subscriptions cost more than {self.per_second:,} units of work a second. Select "
                "less, or the same in all subscriptions. Subscribe again with the cursor of the last event.",
                retry_after_ms=self._wait_ms(user, self.size // 2),
            )

    def _wait_ms(self, user: UserId, units: int) -> int:
        """Return the milliseconds until a user's budget has this many units, or is full."""
        missing_seconds = (min(units, self.size) - self.size) / self.per_second + self.seconds_until_full(user)
        return int(missing_seconds * 1000) + 1 if missing_seconds > 1e-6 else 0

    def _forget_full(self, now: float) -> None:
        """Remove some users whose budgets are full, so that the table stays small."""
        for _ in range(min(_CLEANED_AT_ONCE, len(self._full_at))):
            user, full_at = self._full_at.popitem(last=False)
            if full_at > now:
                self._full_at[user] = full_at
