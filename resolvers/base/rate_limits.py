"""Rate limits of users, with the error that callers receive."""

from __future__ import annotations

from resolvers.base.errors import RateLimited
from store.base.ids import UserId
from store.users.rate_limits import RateLimit


def check_rate(limit: RateLimit, user: UserId) -> None:
    """Count an action of a user. Raises RateLimited, with the time to wait, if they do it too often."""
    wait_ms = limit.count(user)
    if wait_ms:
        raise RateLimited("You did this too often. Please try again later.", retry_after_ms=wait_ms)
