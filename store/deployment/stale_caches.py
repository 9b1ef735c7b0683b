"""Cached states that may lack a durable change, because Redis did not answer when the change should be applied.

The outbox would repair this, but it is in Redis too and may be lost with the rest. So the process that stored the
change remembers the users and conversations concerned, and invalidates their cached state as soon as Redis answers.
Settings of users (presence, notifications) are loaded again and not invalidated, because Redis alone has the devices
of a presence record.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Any

import structlog

from store.base.errors import Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.base.workspace_ids import WorkspaceId, is_in_workspace, workspace_of_channel
from store.clocks.shared_clocks import SharedClocks
from store.conversations.conversation_store import ConversationStore
from store.deployment.redis_generations import Generations
from store.redis.cache import Cache
from store.redis.keys import conversation_tag, slot_of_tag, user_tag
from store.sessions.changes import INVALIDATE
from store.sessions.session_store import SessionStore

_log = structlog.get_logger()

_MAX_REMEMBERED = 10_000
"""Largest number of users and conversations. If there are more, the contents of Redis are discarded: in a cluster only
the slots of these users, unless most are conversations, whose members may be on any slot."""

_USERS_AT_ONCE = 500
_CLOCK_TOLERANCE_SECONDS = 0.25


class StaleCaches:
    """The stale caches that one process knows of. Adding is cheap; `invalidate` is called by housekeeping."""

    def __init__(
        self,
        cache: Cache,
        generations: Generations,
        conversations: ConversationStore,
        sessions: SessionStore,
        clocks: SharedClocks,
        reloads: Sequence[Callable[[Collection[UserId]], Awaitable[None]]],
    ) -> None:
        """Remember nothing yet. reloads: load what users have set (presence, notifications) into Redis again."""
        self._cache = cache
        self._generations = generations
        self._conversations = conversations
        self._sessions = sessions
        self._reloads = reloads
        self._stale_users: dict[UserId, float] = {}
        """Time at which each was added, by `time.monotonic`."""
        self._stale_conversations: dict[ConversationId, float] = {}
        self._stale_heads: dict[ConversationId, float] = {}
        self._stale_settings: dict[UserId, float] = {}
        self._stale_clocks: dict[WorkspaceId, float] = {}
        self.end_epoch: Callable[[WorkspaceId], Awaitable[None]] = clocks.end_epoch
        """Lets the clock of a workspace begin a new epoch. Servers replace it: theirs also announces the epoch."""
        self._lock = asyncio.Lock()
        self._overflowed_at = -math.inf
        self._overflowed_slots: set[int] | None = set()
        """The slots to discard; None: all of them."""

    def add_user(self, user: UserId) -> None:
        """Remember a user whose sessions were changed."""
        self._stale_users[user] = time.monotonic()
        self._limit()

    def add_conversation(self, conversation: ConversationId) -> None:
        """Remember a changed conversation if some of its members may not have received the change.

        If the fallback is used, no outbox has the change. Its notes for pushes, webhooks and the index are lost too.
        """
        self._stale_conversations[conversation] = time.monotonic()
        self._limit()
        if self._cache.used_fallback_lately:
            self._generations.lost_notes.add()
            if is_in_workspace(conversation):
                self._add_clock(workspace_of_channel(conversation))

    def add_clock_unless_shared(self, workspace: WorkspaceId) -> None:
        """Remember a workspace whose clock gets an event in the fallback, where other servers do not see it."""
        if not self._cache.is_shared:
            self._add_clock(workspace)

    def _add_clock(self, workspace: WorkspaceId) -> None:
        self._stale_clocks[workspace] = time.monotonic()
        if len(self._stale_clocks) > _MAX_REMEMBERED:
            self._stale_clocks.clear()
            self._discard(None)
            self._overflowed_at = time.monotonic()

    def add_head(self, conversation: ConversationId) -> None:
        """Remember a conversation whose head has missed a change. The sessions of its members have the change."""
        self._stale_heads[conversation] = time.monotonic()
        self._limit()

    def add_dropped_conversation(self, conversation: ConversationId) -> None:
        """Remember a conversation whose head was dropped, unless it was dropped in the deployment's own Redis."""
        if not self._cache.is_shared:
            self.add_conversation(conversation)

    def add_settings_unless_applied(self, user: UserId, is_applied: bool) -> None:
        """Remember a user who changed presence or notifications, unless the deployment's own Redis has the change."""
        if not is_applied or not self._cache.is_shared:
            self._stale_settings[user] = time.monotonic()
            self._limit()

    async def invalidate(self) -> None:
        """Invalidate everything that is remembered, so that it is loaded again and subscribers resync.

        Does nothing while the fallback is used. Raises StoreError: what was not invalidated is still remembered. If
        only one shard is away, everything on other shards is invalidated.
        """
        async with self._lock:
            if self._cache.is_shared:
                await self._invalidate_all()

    async def _invalidate_all(self) -> None:
        if self._overflowed_at >= self._oldest_relevant:
            # Nobody reads what is on a shard that is away, and each message may add more: once it is back is enough.
            away = self._list_slots_away()
            if self._overflowed_slots is None or self._overflowed_slots - away:
                await self._discard_overflowed(away)
                # Entries added since then are invalidated by the next call, under the new key names.
                return
        else:
            self._overflowed_slots = set()
        if not self._count():
            return
        users, self._stale_users = self._stale_users, {}
        talks, self._stale_conversations = self._stale_conversations, {}
        heads, self._stale_heads = self._stale_heads, {}
        settings, self._stale_settings = self._stale_settings, {}
        try:
            await self._drop_conversations(heads, with_members=False)
            users |= await self._drop_conversations(talks)
            await self._invalidate(users)
            await self._reload(settings)
            # After the heads were dropped: subscribers read the conversations again.
            await self._end_epochs()
        finally:
            if users or talks or heads or settings:
                self._stale_users = users | self._stale_users
                self._stale_conversations = talks | self._stale_conversations
                self._stale_heads = heads | self._stale_heads
                self._stale_settings = settings | self._stale_settings
                self._limit()
        if users or talks or heads or self._stale_clocks:
            raise Unreachable("a shard of Redis is away")

    def _list_slots_away(self) -> set[int]:
        """Return those of the slots to discard that are on shards which no server reaches."""
        slots = self._overflowed_slots
        if slots is None or not self._generations.is_apart:
            return set()
        return {slot for slot in slots if self._cache.is_slot_away(slot)}

    async def _discard_overflowed(self, away: set[int]) -> None:
        """Begin a generation for the slots to discard, without those on shards that are away: they remain."""
        slots, self._overflowed_slots = self._overflowed_slots, away
        overflowed_at, self._overflowed_at = self._overflowed_at, self._overflowed_at if away else -math.inf
        try:
            await self._generations.begin_next(slots - away if slots is not None else None)
        except BaseException:
            self._discard(slots)
            self._overflowed_at = max(self._overflowed_at, overflowed_at)
            raise

    @property
    def _oldest_relevant(self) -> float:
        """Everything that this generation has loaded includes the changes before this time."""
        return self._generations.began_at - _CLOCK_TOLERANCE_SECONDS

    def _count(self) -> int:
        conversations = len(self._stale_conversations) + len(self._stale_heads)
        return conversations + len(self._stale_users) + len(self._stale_settings) + len(self._stale_clocks)

    def _limit(self) -> None:
        if self._count() > _MAX_REMEMBERED:
            tags = {user_tag(user) for user in self._stale_users.keys() | self._stale_settings.keys()}
            tags |= {conversation_tag(conversation) for conversation in self._stale_heads}
            if len(self._stale_conversations) > _MAX_REMEMBERED // 2:
                self._discard(None)
                self._stale_conversations.clear()
            else:
                self._discard(set(map(slot_of_tag, tags)))
            self._stale_heads.clear()
            self._stale_users.clear()
            self._stale_settings.clear()
            self._overflowed_at = time.monotonic()

    def _discard(self, slots: set[int] | None) -> None:
        """Add slots to those whose contents will be discarded; None: all of them."""
        known = self._overflowed_slots
        self._overflowed_slots = None if slots is None or known is None else known | slots

    # These methods remove from their argument what they have handled.

    async def _reload(self, settings: dict[UserId, float]) -> None:
        _keep_since(settings, self._oldest_relevant)
        while settings:
            part = list(islice(settings, _USERS_AT_ONCE))
            for reload in self._reloads:
                await reload(part)
            for user in part:
                del settings[user]

    async def _drop_conversations(
        self, talks: dict[ConversationId, float], *, with_members: bool = True
    ) -> dict[UserId, float]:
        """Drop the heads of conversations. Return their members, to be invalidated."""
        _keep_since(talks, self._oldest_relevant)
        members: dict[UserId, float] = {}
        for conversation, added_at in list(talks.items()):
            try:
                await self._conversations.drop(conversation)
                found = await self._list_members(conversation) if with_members else ()
            except Unreachable:
                if not self._cache.is_cluster:
                    raise
                continue
            members.update(dict.fromkeys(found, added_at))
            del talks[conversation]
        return members

    async def _end_epochs(self) -> None:
        _keep_since(self._stale_clocks, self._oldest_relevant)
        for workspace in list(self._stale_clocks):
            # Removed first: an event that the clock misses meanwhile adds it again.
            added_at = self._stale_clocks.pop(workspace)
            try:
                await self.end_epoch(workspace)
            except BaseException as error:
                self._stale_clocks.setdefault(workspace, added_at)
                if not (isinstance(error, Unreachable) and self._cache.is_cluster):
                    raise

    async def _invalidate(self, users: dict[UserId, float]) -> None:
        _keep_since(users, self._oldest_relevant)
        ordered, done = list(users), 0
        for start in range(0, len(ordered), _USERS_AT_ONCE):
            part = ordered[start : start + _USERS_AT_ONCE]
            answers = await self._cache.attempt([self._sessions.apply_call(user, INVALIDATE) for user in part])
            for user, answer in zip(part, answers, strict=True):
                if not isinstance(answer, Exception):
                    del users[user]
                    done += 1
        if done:
            _log.info("stale_caches_invalidated", users=done)

    async def _list_members(self, conversation: ConversationId) -> Iterable[UserId]:
        people = parse_private(conversation)
        if people is not None:
            return people[:2]
        if kind_of(conversation) is ConversationKind.CHANNEL:
            # Its messages change the sessions of their sender and of mentioned users only, who are remembered as users.
            return ()
        await self._conversations.load((conversation,), with_members=True)
        return [member.user for member in await self._conversations.list_members(conversation)]


def _keep_since(remembered: dict[Any, float], oldest: float) -> None:
    """Remove entries that were added before a time."""
    for name in [name for name, added_at in remembered.items() if added_at < oldest]:
        del remembered[name]
