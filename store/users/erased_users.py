"""Erased users, who are known by a keyed hash of their id only (ADR 94).

A row in `revocations` {_id: "erased <hash>", at: ms}: tokens of the user that were issued before the time are refused.
While the erasure runs, the time is ahead of the clock, so all tokens are refused. Afterwards it does not move, so the
same id may begin again with a token that is issued later.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable

from store.base.clock import Clock
from store.base.ids import UserId
from store.users.revocation_store import RevocationStore, Revoked

REFUSED_AHEAD_MS = 3_600_000
"""Tokens issued up to this time after the last step of an erasure are refused."""

_BEGIN = "erased "
"""Beginning of the name of an erased user. No user id contains a space."""

_PSEUDONYM = re.compile(r"erased-[0-9a-f]{16}\Z")


def new_pseudonym() -> UserId:
    """Return a random id that takes the place of the id of an erased user."""
    return UserId(f"erased-{secrets.token_hex(8)}")


def is_pseudonym(user: str) -> bool:
    """Return whether an id has the form of a pseudonym."""
    return _PSEUDONYM.match(user) is not None


class ErasedUsers:
    """Names of erased users, and the refusal of their tokens."""

    def __init__(self, rows: RevocationStore, clock: Clock, find_key: Callable[[], bytes | None]) -> None:
        """Create it. find_key: returns the deployment's key; None until the deployment is open."""
        self._rows = rows
        self._clock = clock
        self._find_key = find_key

    def name_of(self, user: UserId) -> UserId:
        """Return the name of a user, which does not show the id. The same on all servers.

        It is no valid user id, so it can be where user ids are.
        """
        key = self._find_key()
        assert key is not None, "the deployment is not open"
        return UserId(_BEGIN + hmac.digest(key, user.encode(), "sha256").hex()[:32])

    async def refuse(self, user: UserId) -> Revoked:
        """Refuse all tokens of a user for some time. Return what other servers have to know. Raises Unreachable."""
        refused = {self.name_of(user): self._clock.now_ms() + REFUSED_AHEAD_MS}
        for name, until_ms in refused.items():
            await self._rows.revoke(name, until_ms)
        return refused


def is_erased_name(name: str) -> bool:
    """Return whether a name in the list of revocations is that of an erased user."""
    return name.startswith(_BEGIN)
