"""When users without a device on this process were last there, until it is stored (ADR 80)."""

from __future__ import annotations

from store.base.errors import StoreError
from store.base.ids import UserId
from store.presence.presence_store import PresenceStore

_MOST = 50_000
"""Times that wait while MongoDB cannot be reached. Further ones are lost: they are a hint."""


class LastSeen:
    """Times of departures, stored in MongoDB together, for the time when Redis has lost them."""

    def __init__(self, presence: PresenceStore) -> None:
        self._presence = presence
        self._waiting: dict[UserId, int] = {}

    def note(self, user: UserId, seen_ms: int) -> None:
        """Note when a user was last there. The latest time counts."""
        if len(self._waiting) < _MOST or user in self._waiting:
            self._waiting[user] = max(seen_ms, self._waiting.get(user, 0))

    async def store(self) -> None:
        """Store the times that wait: one round trip to MongoDB. Raises StoreError; then they wait further."""
        if not self._waiting:
            return
        seen, self._waiting = self._waiting, {}
        try:
            await self._presence.note_departures(seen)
        except StoreError:
            for user, seen_ms in seen.items():
                self.note(user, seen_ms)
            raise
