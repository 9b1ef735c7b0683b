"""What cached states are owed: something became durable that they may not show, because Redis did not answer.

The outbox would make up for it, but it is in Redis too, and may be lost with the rest. So who wrote remembers, and has the states
that are concerned loaded anew as soon as Redis answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import structlog

from store.base.ids import ConversationId, UserId, parse_private
from store.conversations.conversation_store import ConversationStore
from store.deployment.redis_generations import Generations
from store.redis.cache import Cache
from store.sessions.changes import INVALIDATE
from store.sessions.session_store import SessionStore

_log = structlog.get_logger()

_MOST = 10_000
"""Conversations and users remembered. Where it is more, all that Redis holds is to be forgotten."""

_SLICE = 500
_DOUBT_SECONDS = 0.25


class StaleCaches:
    """What one process owes. Adding costs nothing worth mentioning; `pay` is for housekeeping."""

    def __init__(
        self, cache: Cache, generations: Generations, conversations: ConversationStore, sessions: SessionStore
    ) -> None:
        self._cache = cache
        self._generations = generations
        self._conversations = conversations
        self._sessions = sessions
        self._users: dict[UserId, float] = {}
        self._talks: dict[ConversationId, float] = {}
        self._everybody = -math.inf
        """When there was more than is remembered."""

    def add_user(self, user: UserId) -> None:
        """A user's sessions were changed."""
        self._users[user] = time.monotonic()
        self._bound()

    def add_conversation(self, conversation: ConversationId) -> None:
        """A conversation's head or membership was changed, which all its members see."""
        self._talks[conversation] = time.monotonic()
        self._bound()

    def _bound(self) -> None:
        if len(self._users) + len(self._talks) > _MOST:
            self._users.clear()
            self._talks.clear()
            self._everybody = time.monotonic()

    async def pay(self) -> None:
        """Has everything concerned loaded anew by whoever asks next, and tells those who listen. Raises StoreError: what is left then
        is still owed."""
        if self._cache.spare is not None:
            return
        if self._everybody >= self._oldest:
            await self._generations.begin()
            self._everybody = -math.inf
            # What is remembered besides is looked at under the new names.
            return
        if not (self._users or self._talks):
            return
        users, self._users = self._users, {}
        talks, self._talks = self._talks, {}
        try:
            await self._pay(users, talks)
        except BaseException:
            self._users = users | self._users
            self._talks = talks | self._talks
            self._bound()
            raise

    @property
    def _oldest(self) -> float:
        """What was durable before this generation began is in whatever was loaded since."""
        return self._generations.began_at - _DOUBT_SECONDS

    async def _pay(self, users: dict[UserId, float], talks: dict[ConversationId, float]) -> None:
        oldest = self._oldest
        concerned = {user for user, at in users.items() if at >= oldest}
        for conversation in [talk for talk, at in talks.items() if at >= oldest]:
            await self._conversations.drop(conversation)
            concerned.update(await self._members(conversation))
        everybody = list(concerned)
        for start in range(0, len(everybody), _SLICE):
            part = everybody[start : start + _SLICE]
            await self._cache.run([self._sessions.apply(user, INVALIDATE) for user in part])
        if everybody:
            _log.info("states are loaded anew that were not shown all that is durable", users=len(everybody))

    async def _members(self, conversation: ConversationId) -> Iterable[UserId]:
        people = parse_private(conversation)
        if people is not None:
            return people[:2]
        await self._conversations.load((conversation,), with_members=True)
        return [member.user for member in await self._conversations.list_members(conversation)]
