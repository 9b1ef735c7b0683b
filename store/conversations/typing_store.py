"""Typing: limits how often it is announced, and finds the servers to announce it to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.presence.visibility import Visibility
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

WINDOW_MS = 3_000
"""Typing of a user in a conversation is announced at most once in this time."""

SHOWN_MS = 8_000
"""Clients show that a user is typing for this time."""

Routes = Mapping[UserId, Sequence[str]]
"""The servers that hold connections of each user, as far as is known. Users without any are left out."""


class TypingStep(Enum):
    """Outcome of recording an event of typing."""

    NOTHING = 0
    """Nobody is notified: the window is taken, or clients do not show the typing any more."""
    DUE = 1
    UNSEEN = 2
    """The last announcement was seen by nobody but INVISIBLE users."""


class WantedReads(NamedTuple):
    """Reads made when an event of typing is recorded: of some users, and of a shared clock ("": of none)."""

    routes: Sequence[UserId] = ()
    presences: Sequence[UserId] = ()
    clock: str = ""


class RecordedTyping(NamedTuple):
    """An event of typing after it was recorded.

    Attributes:
        step: The outcome.
        routes: The routes of the members who were asked for.
        own: The presence of the user who types. `Visibility` takes it, and `presences`.
        presences: The presence of the members who were asked for.
        servers: The servers that look at the shared clock that was asked for.
    """

    step: TypingStep
    routes: Routes
    own: Sequence[bytes]
    presences: Mapping[UserId, Sequence[bytes]]
    servers: Sequence[str]


class TypingStore:
    """Typing windows and routes. They are in Redis only, and may be lost."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock, visibility: Visibility) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._visibility = visibility

    async def begin(self, user: UserId, conversation: ConversationId, wanted: WantedReads) -> RecordedTyping:
        """Take a user's window of a conversation, and read what is wanted: one round trip."""
        return await self._record("take_typing_window", user, conversation, (WINDOW_MS, SHOWN_MS), wanted)

    async def end(self, user: UserId, conversation: ConversationId, wanted: WantedReads) -> RecordedTyping:
        """End a user's typing, and read what is wanted: one round trip.

        Due, or unseen, at most once for each window: while clients may still show it. The window stays taken.
        """
        return await self._record("end_typing", user, conversation, (SHOWN_MS,), wanted)

    def mark_call(self, user: UserId, conversation: ConversationId, *, is_seen: bool) -> Call:
        """Return the call that notes whether a visible user saw the announcement of the window that begins now."""
        value = f"{self._clock.now_ms()}" if is_seen else f"{self._clock.now_ms()}u"
        return Call("SET", (self._keys.typing(user, conversation),), (value, "PX", 2 * SHOWN_MS))

    async def _record(
        self,
        script: str,
        user: UserId,
        conversation: ConversationId,
        times_ms: Sequence[int],
        wanted: WantedReads,
    ) -> RecordedTyping:
        now = self._clock.now_ms()
        calls = [Call(script, (self._keys.typing(user, conversation),), (now, *times_ms))]
        calls += self._visibility.read_calls((user, *wanted.presences))
        calls += map(self._route_call, wanted.routes)
        if wanted.clock:
            calls.append(Call("ZRANGEBYSCORE", (self._keys.of_clock(wanted.clock, "routes"),), (now, "+inf")))
        answers = iter(await self._cache.run(calls))
        step, own = TypingStep(next(answers)), next(answers)
        presences = {other: next(answers) for other in wanted.presences}
        routes = _routes(wanted.routes, [next(answers) for _ in wanted.routes])
        servers = [server.decode() for server in next(answers)] if wanted.clock else ()
        return RecordedTyping(step, routes, own, presences, servers)

    def _route_call(self, user: UserId) -> Call:
        return Call("ZRANGEBYSCORE", (self._keys.of_user(user, "routes"),), (self._clock.now_ms(), "+inf"))


def _routes(users: Sequence[UserId], rows: Sequence[Any]) -> Routes:
    return {user: [server.decode() for server in row] for user, row in zip(users, rows, strict=True) if row}
