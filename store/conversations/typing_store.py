"""Typing: how often somebody's is told, and which servers hold connections of those it may be told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

WINDOW_MS = 3_000
"""A user's typing in a conversation is told at most once in so long."""

Routes = Mapping[UserId, Sequence[str]]
"""The servers that hold connections of each user, as far as is known. Those of whom none is known are left out."""


class TypingStore:
    """Windows of typing, and routes as they are read for it. All of it is in Redis alone, and may be lost."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    async def take_window(
        self, user: UserId, conversation: ConversationId, others: Sequence[UserId] = ()
    ) -> tuple[bool, Routes]:
        """Takes the user's window of the conversation: whether it was free. And the others' routes, in the same round trip."""
        key = self._keys.typing(user, conversation)
        take = Call("typing", (key,), (self._clock.now_ms(), WINDOW_MS))
        free, *rows = await self._cache.run([take, *map(self._route, others)])
        return free == 1, _routes(others, rows)

    def give_back(self, user: UserId, conversation: ConversationId) -> Call:
        """The call that makes a window free again which was just taken."""
        return Call("DEL", (self._keys.typing(user, conversation),))

    async def find_routes(self, users: Sequence[UserId]) -> Routes:
        """Routes of some users: one round trip."""
        return _routes(users, await self._cache.run([self._route(user) for user in users]))

    def _route(self, user: UserId) -> Call:
        return Call("ZRANGEBYSCORE", (self._keys.of_user(user, "routes"),), (self._clock.now_ms(), "+inf"))


def _routes(users: Sequence[UserId], rows: Sequence[Any]) -> Routes:
    return {user: [server.decode() for server in row] for user, row in zip(users, rows, strict=True) if row}
