"""Brings sessions of threads in channels in line with a change of rights, before it is answered (ADR 70)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId, without_thread
from store.base.workspace_ids import WorkspaceId
from store.channels.channel_rights import ChannelRightsFinder
from store.mongo.client import Mongo
from store.mongo.collections import SESSIONS, parse_session_row_id
from store.mongo.index_fields import BY_CHANNEL
from store.redis.cache import Cache
from store.sessions.apply_messages import FanoutCalls
from store.sessions.changes import Change, logged_change
from store.sessions.fields import CHANNEL, threads_mark
from store.sessions.threads.thread_changes import HideThreads, ShowThreads
from store.workspaces.policy import PendingChange, Policy

_CHANNELS_AT_ONCE = 50

_Channels = tuple[ConversationId, ...]


class ThreadAccess:
    """Hides and shows threads in cached states. Every step may be repeated. A load judges for itself."""

    def __init__(self, mongo: Mongo, cache: Cache, rights: ChannelRightsFinder, clock: Clock) -> None:
        self._mongo = mongo
        self._cache = cache
        self._rights = rights
        self._clock = clock

    async def update(self, policy: Policy, change: PendingChange) -> None:
        """Hide threads from users who can't see their channel after a change, and drop states that lack others.

        policy: includes the change. No state may be loaded under an earlier one any more. Raises StoreError.
        """
        channels = sorted(change.heads)
        for start in range(0, len(channels), _CHANNELS_AT_ONCE):
            part = channels[start : start + _CHANNELS_AT_ONCE]
            if change.changes_rights:
                await self._update(policy, await self._find_users(part))
            elif change.members:
                # The cached states of these users know their threads.
                await self._update(policy, dict.fromkeys(part, change.members))

    async def show_to(self, workspace: WorkspaceId, users: Iterable[UserId]) -> None:
        """Drop the cached states of users with hidden threads in a workspace that they have joined. One round trip."""
        await self._apply([(ShowThreads((), inside=f"c_{workspace[2:]}."), list(users))])

    async def _find_users(self, channels: Sequence[ConversationId]) -> dict[ConversationId, set[UserId]]:
        """Return the users with sessions of threads in some channels. One round trip to MongoDB."""
        query = {CHANNEL: {"$in": list(map(threads_mark, channels))}}
        users: defaultdict[ConversationId, set[UserId]] = defaultdict(set)
        for row in await self._mongo.find(SESSIONS, query, projection={"_id": 1}, hint=BY_CHANNEL):
            user, thread = parse_session_row_id(row["_id"])
            users[without_thread(thread)].add(user)
        return users

    async def _update(self, policy: Policy, users: Mapping[ConversationId, Collection[UserId]]) -> None:
        """Judge users in channels, and apply the result to their cached states."""
        hidden: defaultdict[UserId, list[ConversationId]] = defaultdict(list)
        shown: defaultdict[UserId, list[ConversationId]] = defaultdict(list)
        for channel, some in users.items():
            exists = not policy.is_deleted and channel in policy.channels
            viewers = await self._rights.find_viewers(channel, some, policy.version) if exists else {}
            for user in some:
                (shown if user in viewers else hidden)[user].append(channel)
        await self._apply(
            [
                *((HideThreads(channels), users) for channels, users in _grouped(hidden).items()),
                *((ShowThreads(channels), users) for channels, users in _grouped(shown).items()),
            ]
        )

    async def _apply(self, changes: Sequence[tuple[Change, Sequence[UserId]]]) -> None:
        now_ms = self._clock.now_ms()
        calls = FanoutCalls(self._cache, now_ms)
        for change, users in changes:
            calls.add_change(logged_change(change, now_ms, ""), users)
        if changes:
            await calls.run(self._cache.run)


def _grouped(channels: Mapping[UserId, list[ConversationId]]) -> dict[_Channels, list[UserId]]:
    """Return the users by the channels that are hidden or shown to them."""
    users: defaultdict[_Channels, list[UserId]] = defaultdict(list)
    for user, names in channels.items():
        users[tuple(names)].append(user)
    return users
