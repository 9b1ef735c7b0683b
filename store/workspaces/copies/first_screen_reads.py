"""Reads what a user's first screen needs of Redis in one round trip."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from store.base.ids import UserId
from store.presence.presence_cache import PresenceCache
from store.presence.presence_record import PresenceRecord
from store.redis.cache import Cache
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


class FirstScreenReads:
    """Reads first screens: one round trip to Redis if everything is cached."""

    def __init__(
        self, cache: Cache, sessions: SessionStore, workspaces: KnownWorkspaces, presence: PresenceCache
    ) -> None:
        self._cache = cache
        self._sessions = sessions
        self._workspaces = workspaces
        self._presence = presence

    async def read(self, user: UserId, name: str, limit: int) -> FirstScreenRead:
        """Return the first screen of a user. name: of the list of sessions."""
        calls, reads = self._sessions.first_screen_calls(user, name, limit), self._workspaces.begin(user)
        (answer, *answers) = await self._cache.run([*self._presence.read_calls([user]), *calls, *reads.calls])
        (sessions, totals), presence = await asyncio.gather(
            self._sessions.parse_first_screen(user, name, limit, answers[: len(calls)]),
            self._presence.complete({user: answer}),
        )
        workspaces = await self._workspaces.find(user, reads, answers[len(calls) :])
        return FirstScreenRead(sessions, totals, workspaces, presence[user])
