"""Logs claims of tokens that were ignored because their values are not accepted."""

from __future__ import annotations

import structlog

from store.base.ids import UserId

_log = structlog.get_logger(__name__)

_MAX_REMEMBERED = 10_000
"""Log lines that are not repeated. The oldest are forgotten first."""


class IgnoredClaimsLog:
    """Writes one log line for each user, claim and reason."""

    def __init__(self) -> None:
        self._logged: dict[tuple[UserId, str, str], None] = {}

    def log(self, user: UserId, claim: str, reason: str) -> None:
        """Log that a claim of a user's token was ignored. `reason` must not contain the claim's value."""
        line = user, claim, reason
        if line in self._logged:
            return
        if len(self._logged) >= _MAX_REMEMBERED:
            del self._logged[next(iter(self._logged))]
        self._logged[line] = None
        _log.warning("token_claim_ignored", user=user, claim=claim, reason=reason)
