"""Reads of the sessions that many users have in one conversation."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.clock import Clock
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.sessions.session import Session, session_from
from store.sessions.session_lists import is_thread
from store.sessions.session_rows import SessionRows
from store.sessions.session_store import SessionStore

_META = 3
"""Values before the records in an answer of `get_sessions`."""


class SessionsOfUsers:
    """Reads sessions of users who may all be offline. It loads no states but for threads and gateways."""

    def __init__(self, sessions: SessionStore, rows: SessionRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._sessions = sessions
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock

    async def find(self, conversation: ConversationId, users: Sequence[UserId]) -> dict[UserId, Session]:
        """Return the sessions of some users in one conversation, also deleted ones. Missing ones are left out.

        One round trip to Redis, and one to MongoDB if some states are not cached; for threads and gateways one for each
        of these. No request waits for it.
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
        if not is_thread(conversation) and kind_of(conversation) is not ConversationKind.SUB_BIZ:
            return found | await self._rows.read_of_users(conversation, unknown)
        for user in unknown:
            for session in await self._sessions.find_each(user, (conversation,)):
                found[user] = session
        return found
