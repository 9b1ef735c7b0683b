"""Watchers of conversations: users who look at one, and get the events that only those who look at it get.

Such events are appended to the logs of the watchers. A watcher has all of them from the time on when they began, as
long as they stay a watcher: some minutes longer than a server has said that they look (ADR 72).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

WATCH_MS = 5 * 60 * 1000
"""Time for which a user stays a watcher after a server has said that they look: a client can resume that long."""


class Watch(NamedTuple):
    """A user's place among the watchers of a conversation.

    Attributes:
        token: Token of the set of watchers. It changes when Redis loses the set.
        epoch, tick: The position on the user's clock from which on they have all events; "" and 0: not known.
    """

    token: str
    epoch: str = ""
    tick: int = 0


class RenewedWatchers(NamedTuple):
    """The token of a set of watchers, and the users who were not in it any more."""

    token: str
    lost: Collection[UserId]


class WatcherStore:
    """Reads and changes the watchers of conversations, in Redis alone."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    async def watch(
        self,
        user: UserId,
        conversations: Sequence[ConversationId],
        earlier: Mapping[ConversationId, Watch] | None = None,
    ) -> dict[ConversationId, Watch]:
        """Make a user a watcher of conversations, or extend the time until which they are one. One round trip.

        Args:
            user: The user.
            conversations: The conversations.
            earlier: The answer of an earlier call, with the user's clock at a moment after that call.

        Returns:
            The watches. Where the position is not known, the call has to be repeated with the user's clock.
        """
        self._cache.require_shared()
        now_ms, new_token = self._clock.now_ms(), secrets.token_hex(8)
        calls = []
        for name in conversations:
            token, epoch, tick = earlier[name] if earlier is not None else Watch("")
            args = (now_ms, user, now_ms + WATCH_MS, epoch, tick, token, new_token)
            calls.append(Call("watch", self._keys.watchers(name), args))
        answers = await self._cache.run(calls) if calls else []
        return {name: _watch_from(*answer) for name, answer in zip(conversations, answers, strict=True)}

    async def renew(
        self, watchers: Mapping[ConversationId, Collection[UserId]]
    ) -> dict[ConversationId, RenewedWatchers]:
        """Extend the time of watchers. One round trip that no request waits for."""
        self._cache.require_shared()
        now_ms = self._clock.now_ms()
        calls = [
            Call("renew_watchers", self._keys.watchers(name), (now_ms, now_ms + WATCH_MS, *users))
            for name, users in watchers.items()
        ]
        answers = await self._cache.run_in_background(calls) if calls else []
        return {
            name: RenewedWatchers(answer[0].decode(), parse_watchers(answer[1:]))
            for name, answer in zip(watchers, answers, strict=True)
        }

    def list_call(self, conversation: ConversationId) -> Call:
        """Return the call that lists the watchers of a conversation. `parse_watchers` reads its answer."""
        return Call("list_watchers", self._keys.watchers(conversation), (self._clock.now_ms(),))

    async def list(self, conversation: ConversationId) -> list[UserId]:
        """Return the watchers of a conversation. Some of them may have left it: check their access. One round trip."""
        return parse_watchers(await self._cache.one(self.list_call(conversation)))


def parse_watchers(answer: Sequence[bytes]) -> list[UserId]:
    """Return the answer of `WatcherStore.list_call`."""
    return [UserId(user.decode()) for user in answer]


def _watch_from(token: bytes, start: bytes) -> Watch:
    epoch, _, tick = start.decode().partition(" ")
    return Watch(token.decode(), epoch, int(tick or 0))
