"""When users without a device on this process were last there, until it is stored (ADR 80)."""

from __future__ import annotations

from itertools import islice

from store.base.ids import UserId
from store.presence.presence_store import PresenceStore

_MOST = 50_000
"""Users who wait while MongoDB cannot be reached. Further ones are left out: what is stored is a hint."""

_AT_ONCE = 200


class LastSeen:
    """Stores when users were last there, many at a time, for the time when Redis has lost it."""

    def __init__(self, presence: PresenceStore) -> None:
        self._presence = presence
        self._waiting: dict[UserId, None] = {}

    def note(self, user: UserId) -> None:
        """Note that the departure of a user has been announced. It is stored soon."""
        if len(self._waiting) < _MOST:
            self._waiting[user] = None

    async def store(self) -> None:
        """Store what waits: one round trip to each database for 200 users. Raises StoreError: it waits further."""
        while self._waiting:
            users = list(islice(self._waiting, _AT_ONCE))
            records = await self._presence.read(users)
            await self._presence.note_departures(records.values())
            for user in users:
                self._waiting.pop(user, None)
