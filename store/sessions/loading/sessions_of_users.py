"""Reads of the sessions of many users, who may all be offline. They load no states that are not cached."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.sessions.session import Session, session_from
from store.sessions.session_lists import AllTotals, is_thread
from store.sessions.session_rows import SessionRows
from store.sessions.session_store import SessionStore, totals_from

_META = 3
"""Values before the records in an answer of `get_sessions`."""


class SessionsOfUsers:
    """Reads sessions of users in the background.

    A state that is loaded costs something with each message to its user, and offline users do not need it.
    """

    def __init__(self, sessions: SessionStore, rows: SessionRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._sessions = sessions
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock

    async def find(self, conversation: ConversationId, users: Sequence[UserId]) -> dict[UserId, Session]:
        """Return the sessions of some users in one conversation, also deleted ones. Missing ones are left out.

        One round trip to Redis, and one to MongoDB if some states are not cached. In threads these are loaded, one by
        one.
        """
        now_ms = self._clock.now_ms()
        calls = [Call("get_sessions", self._keys.user(user), (now_ms, conversation)) for user in users]
        found, unknown = dict[UserId, Session](), list[UserId]()
        for user, answer in zip(users, await self._cache.run_in_background(calls), strict=True):
            if len(answer) < _META:
                unknown.append(user)
            elif len(answer) > _META and answer[_META]:
                found[user] = session_from(user, conversation, answer[_META])
        if not unknown:
            return found
        if not is_thread(conversation):
            return found | await self._rows.read_of_users(conversation, unknown)
        for user in unknown:
            for session in await self._sessions.find_each(user, (conversation,)):
                found[user] = session
        return found

    async def read_totals(self, user: UserId) -> AllTotals:
        """Return the unread messages, mentions and threads of a user.

        One round trip to Redis; if the state is not cached, two to MongoDB for each 2,000 sessions.
        """
        call = Call("get_totals", self._keys.user(user), (self._clock.now_ms(), 1))
        (answer,) = await self._cache.run_in_background([call])
        return totals_from(answer) if len(answer) >= _META else await self._rows.read_totals(user)
