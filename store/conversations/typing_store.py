"""Typing: limits how often it is announced, and finds the servers to announce it to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

WINDOW_MS = 3_000
"""Typing of a user in a conversation is announced at most once in this time."""

SHOWN_MS = 8_000
"""Clients show that a user is typing for this time."""

Routes = Mapping[UserId, Sequence[str]]
"""The servers that hold connections of each user, as far as is known. Users without any are left out."""


class TypingStore:
    """Typing windows and routes. They are in Redis only, and may be lost."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    async def take_window(
        self, user: UserId, conversation: ConversationId, others: Sequence[UserId] = ()
    ) -> tuple[bool, Routes]:
        """Take a user's window of a conversation. Return whether it was free, and others' routes. One round trip."""
        args = (self._clock.now_ms(), WINDOW_MS, SHOWN_MS)
        return await self._run(Call("take_typing_window", (self._keys.typing(user, conversation),), args), others)

    async def end_typing(
        self, user: UserId, conversation: ConversationId, others: Sequence[UserId] = ()
    ) -> tuple[bool, Routes]:
        """End a user's typing. Return whether clients may still show it, and others' routes. One round trip.

        Returns True at most once for each window. The window stays taken.
        """
        args = (self._clock.now_ms(), SHOWN_MS)
        return await self._run(Call("end_typing", (self._keys.typing(user, conversation),), args), others)

    async def take_window_on_clock(
        self, user: UserId, conversation: ConversationId, owner: str
    ) -> tuple[bool, Sequence[str]]:
        """Like `take_window`, with the servers that look at a shared clock. One round trip."""
        args = (self._clock.now_ms(), WINDOW_MS, SHOWN_MS)
        return await self._run_with_servers(
            Call("take_typing_window", (self._keys.typing(user, conversation),), args), owner
        )

    async def end_typing_on_clock(
        self, user: UserId, conversation: ConversationId, owner: str
    ) -> tuple[bool, Sequence[str]]:
        """Like `end_typing`, with the servers that look at a shared clock. One round trip."""
        args = (self._clock.now_ms(), SHOWN_MS)
        return await self._run_with_servers(Call("end_typing", (self._keys.typing(user, conversation),), args), owner)

    async def _run_with_servers(self, call: Call, owner: str) -> tuple[bool, Sequence[str]]:
        routes = Call("ZRANGEBYSCORE", (self._keys.of_clock(owner, "routes"),), (self._clock.now_ms(), "+inf"))
        answer, servers = await self._cache.run([call, routes])
        return answer == 1, [server.decode() for server in servers]

    def release_window_call(self, user: UserId, conversation: ConversationId) -> Call:
        """Return the call that frees a window that was just taken."""
        return Call("DEL", (self._keys.typing(user, conversation),))

    async def find_routes(self, users: Sequence[UserId]) -> Routes:
        """Return the routes of some users: one round trip."""
        return _routes(users, await self._cache.run([self._route_call(user) for user in users]))

    async def _run(self, call: Call, others: Sequence[UserId]) -> tuple[bool, Routes]:
        answer, *rows = await self._cache.run([call, *map(self._route_call, others)])
        return answer == 1, _routes(others, rows)

    def _route_call(self, user: UserId) -> Call:
        return Call("ZRANGEBYSCORE", (self._keys.of_user(user, "routes"),), (self._clock.now_ms(), "+inf"))


def _routes(users: Sequence[UserId], rows: Sequence[Any]) -> Routes:
    return {user: [server.decode() for server in row] for user, row in zip(users, rows, strict=True) if row}
