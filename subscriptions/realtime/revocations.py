"""Revoked tokens, kept in memory, because every request checks them.

The bus notifies servers of revocations at once. It may lose frames, so revocations are also read from MongoDB: at the
start, each time that this process begins to listen, and periodically (`RepeatedRead`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import structlog

from store.base.clock import Clock
from store.base.ids import UserId
from store.base.repeated_read import RepeatedRead
from store.redis.cache import Cache, Call
from store.users.erased_users import ErasedUsers, is_erased_name
from store.users.revocation_store import RevocationStore, Revoked
from subscriptions.realtime.bus import Bus

_log = structlog.get_logger()

_FRAME = "revoked"
_MARGIN_MS = 24 * 3600 * 1000
"""More than the difference of servers' clocks. Revocations up to this much older than the newest are read again."""


class Revocations:
    """The revocations that this process has read. Empty until `is_known`."""

    def __init__(self, rows: RevocationStore, erased: ErasedUsers, bus: Bus, clock: Clock) -> None:
        self._rows = rows
        self._erased = erased
        self._clock = clock
        self._has_erased = False
        self._since: dict[UserId, int] = {}
        self._on_change: list[Callable[[], None]] = []
        bus.on_frame(_FRAME, self._receive)
        self.reading = RepeatedRead("revocations", self._read_all)
        bus.on_subscribed(self.reading.read_soon)

    @property
    def is_known(self) -> bool:
        """True once they were read from MongoDB."""
        return self.reading.is_known

    def is_revoked(self, user: UserId, issued_at: float | None) -> bool:
        """Return whether a user's token is revoked. issued_at: seconds since the epoch; None if the token has none."""
        since = max(self._since.get(user, -1), self._erased_since(user))
        return since >= 0 and (issued_at is None or issued_at * 1000 < since)

    def is_being_erased(self, user: UserId) -> bool:
        """Return whether a user is being erased, or was lately: for others such a user does not exist."""
        return self._erased_since(user) > self._clock.now_ms()

    def _erased_since(self, user: UserId) -> int:
        return self._since.get(self._erased.name_of(user), -1) if self._has_erased else -1

    def on_change(self, call: Callable[[], None]) -> None:
        """Make `call` each time that more tokens were revoked. It must not block."""
        self._on_change.append(call)

    async def _read_all(self) -> None:
        self.add(await self._rows.list_since(max(self._since.values(), default=0) - _MARGIN_MS))

    def _receive(self, frame: Any) -> None:
        self.add({UserId(user): at for user, at in frame})

    def add(self, revoked: Revoked) -> None:
        """Apply stored revocations."""
        news = {user: at for user, at in revoked.items() if at > self._since.get(user, -1)}
        if not news:
            return
        self._since |= news
        self._has_erased = self._has_erased or any(map(is_erased_name, news))
        for call in self._on_change:
            call()


async def announce_revocations(cache: Cache, revoked: Revoked) -> None:
    """Notify all servers of stored revocations. Raises Unreachable."""
    frame = orjson.dumps({_FRAME: list(revoked.items())})
    await cache.one(Call("PUBLISH", (), (cache.keys.broadcast(), frame)))
