"""How often users may do what, as they are told of it."""

from __future__ import annotations

from resolvers.base.errors import RateLimited
from store.base.ids import UserId
from store.users.rate_limits import RateLimit


def check_rate(limit: RateLimit, user: UserId) -> None:
    """Counts that the user does it once more. Raises RateLimited, with when to come back, where that is too often."""
    wait_ms = limit.take(user)
    if wait_ms:
        raise RateLimited("That was too often, please try again a little later.", retry_after_ms=wait_ms)
