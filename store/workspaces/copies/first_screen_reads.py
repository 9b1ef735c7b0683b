"""Reads what a user's first screen needs of Redis in one round trip."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from store.base.ids import UserId
from store.notifications.notification_settings import NotificationSettings
from store.presence.presence_cache import PresenceCache
from store.presence.presence_record import PresenceRecord
from store.redis.cache import Cache
from store.redis.revised_records import RevisedRecords
from store.sessions.loading.loaded_state import Snapshot
from store.sessions.session_lists import AllTotals
from store.sessions.session_store import SessionStore
from store.workspaces.copies.known_workspaces import KnownWorkspace, KnownWorkspaces


class FirstScreenRead(NamedTuple):
    """The beginning of a list of sessions, sums, and workspaces that the user may be a member of.

    Sums and workspaces include everything up to the clock of `sessions`.
    """

    sessions: Snapshot
    totals: AllTotals
    workspaces: list[KnownWorkspace]
    presence: PresenceRecord
    notification_settings: NotificationSettings


class FirstScreenReads:
    """Reads first screens: one round trip to Redis if everything is cached."""

    def __init__(
        self,
        cache: Cache,
        sessions: SessionStore,
        workspaces: KnownWorkspaces,
        presence: PresenceCache,
        settings: RevisedRecords[NotificationSettings],
    ) -> None:
        self._cache = cache
        self._sessions = sessions
        self._workspaces = workspaces
        self._presence = presence
        self._settings = settings

    async def read(self, user: UserId, name: str, limit: int) -> FirstScreenRead:
        """Return the first screen of a user. name: of the list of sessions."""
        calls, reads = self._sessions.first_screen_calls(user, name, limit), self._workspaces.begin(user)
        own = [*self._presence.read_calls([user]), self._settings.read_call(user)]
        of_presence, of_settings, *answers = await self._cache.run([*own, *calls, *reads.calls])
        (sessions, totals), presence, settings = await asyncio.gather(
            self._sessions.parse_first_screen(user, name, limit, answers[: len(calls)]),
            self._presence.complete({user: of_presence}),
            self._settings.complete(user, of_settings),
        )
        workspaces = await self._workspaces.find(user, reads, answers[len(calls) :])
        return FirstScreenRead(sessions, totals, workspaces, presence[user], settings)
