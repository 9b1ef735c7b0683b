"""Reads what a user's first screen needs of Redis in one round trip."""

from __future__ import annotations

from typing import NamedTuple

from store.base.ids import UserId
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


class FirstScreenReads:
    """Reads first screens: one round trip to Redis if everything is cached."""

    def __init__(self, cache: Cache, sessions: SessionStore, workspaces: KnownWorkspaces) -> None:
        self._cache = cache
        self._sessions = sessions
        self._workspaces = workspaces

    async def read(self, user: UserId, name: str, limit: int) -> FirstScreenRead:
        """Return the first screen of a user. name: of the list of sessions."""
        calls, reads = self._sessions.first_screen_calls(user, name, limit), self._workspaces.begin(user)
        answers = await self._cache.run([*calls, *reads.calls])
        sessions, totals = await self._sessions.parse_first_screen(user, name, limit, answers[: len(calls)])
        workspaces = await self._workspaces.find(user, reads, answers[len(calls) :])
        return FirstScreenRead(sessions, totals, workspaces)
