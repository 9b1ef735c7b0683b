"""The response headers RateLimit and RateLimit-Policy, which tell a client its work budget.

Fields and names are those of draft-ietf-httpapi-ratelimit-headers-11, for one policy:

    RateLimit-Policy: "work";q=2000000;w=20    2,000,000 units of work, refilled in 20 seconds
    RateLimit: "work";r=1999898;t=1            1,999,898 units are left, the budget is full in 1 second
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from resolvers.base.work_budgets import WorkBudgets
from store.base.ids import UserId

RATE_LIMIT_HEADERS = ("ratelimit", "ratelimit-policy")


class RateLimitHeaders:
    """Writes the headers for the users of a process."""

    def __init__(self, work: WorkBudgets) -> None:
        self._work = work
        window = math.ceil(work.size / work.per_second) if work.has_limit else 0
        self._policy = f'"work";q={work.size};w={window}'

    def of(self, user: UserId) -> Mapping[str, str]:
        """Return the headers with what a user has left; none if there is no limit."""
        work = self._work
        if not work.has_limit:
            return {}
        seconds = work.seconds_until_full(user)
        remaining = max(0, work.size - round(seconds * work.per_second))
        return {"ratelimit-policy": self._policy, "ratelimit": f'"work";r={remaining};t={math.ceil(seconds)}'}
