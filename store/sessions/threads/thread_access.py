"""Brings sessions of threads in channels in line with a change of rights, before it is answered (ADR 70)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId, without_thread
from store.base.workspace_ids import WorkspaceId
from store.channels.channel_rights import ChannelRightsFinder
from store.mongo.client import Document, Mongo
from store.mongo.collections import SESSIONS, parse_session_row_id, session_row_id, thread_sessions_of
from store.mongo.index_fields import BY_CHANNEL, BY_ID
from store.mongo.writes import Update, Write
from store.redis.cache import Cache
from store.sessions.apply_messages import FanoutCalls
from store.sessions.changes import Change, logged_change
from store.sessions.fields import CHANNEL, HIDDEN_UNDER, threads_mark
from store.sessions.session_rows import SessionRows, Tick
from store.sessions.threads.thread_changes import HideThreads, ShowThreads
from store.workspaces.policy import PendingChange, Policy

_CHANNELS_AT_ONCE = 50

_USERS_AT_ONCE = 50

_Channels = tuple[ConversationId, ...]

_Threads = Mapping[UserId, Sequence[ConversationId]]
"""Threads by the users who have sessions of them."""


class ThreadAccess:
    """Hides and shows threads in cached states. Every step may be repeated. A load judges for itself.

    Rows of threads are marked before the threads are hidden. So the next load gives them later ticks, also if their
    users can see them again by then.
    """

    def __init__(
        self, mongo: Mongo, cache: Cache, rows: SessionRows, rights: ChannelRightsFinder, clock: Clock
    ) -> None:
        self._mongo = mongo
        self._cache = cache
        self._rows = rows
        self._rights = rights
        self._clock = clock

    async def update(self, policy: Policy, change: PendingChange) -> None:
        """Hide threads from users who can't see their channel after a change, and drop states that lack others.

        policy: includes the change. No state may be loaded under an earlier one any more. Raises StoreError.
        """
        channels = sorted(change.heads)
        if not change.changes_rights:
            await self._update(policy, channels, await self._find_threads(channels, sorted(change.members)))
            return
        for start in range(0, len(channels), _CHANNELS_AT_ONCE):
            part = channels[start : start + _CHANNELS_AT_ONCE]
            await self._update(policy, part, await self._find_threads(part))

    async def show_to(self, workspace: WorkspaceId, users: Iterable[UserId]) -> None:
        """Drop the cached states of users with hidden threads in a workspace that they have joined. One round trip."""
        await self._apply([(ShowThreads((), inside=f"c_{workspace[2:]}."), list(users))])

    async def _find_threads(
        self, channels: Sequence[ConversationId], users: Sequence[UserId] | None = None
    ) -> _Threads:
        """Return the threads in some channels that users have sessions of. users: only these; None: all.

        One round trip to MongoDB, or one for each 50 users. None without channels.
        """
        if not channels:
            return {}
        query: Document = {CHANNEL: {"$in": list(map(threads_mark, channels))}}
        if users is None:
            rows = await self._mongo.find(SESSIONS, query, projection={"_id": 1}, hint=BY_CHANNEL)
        else:
            rows = []
            for start in range(0, len(users), _USERS_AT_ONCE):
                some = {"$or": [thread_sessions_of(user) for user in users[start : start + _USERS_AT_ONCE]]}
                rows += await self._mongo.find(SESSIONS, query | some, projection={"_id": 1}, hint=BY_ID)
        threads: defaultdict[UserId, list[ConversationId]] = defaultdict(list)
        for row in rows:
            user, thread = parse_session_row_id(row["_id"])
            threads[user].append(thread)
        return threads

    async def _update(self, policy: Policy, channels: Sequence[ConversationId], threads: _Threads) -> None:
        """Judge users in channels with their threads, mark the rows of hidden ones, and bring cached states in line."""
        users: defaultdict[ConversationId, set[UserId]] = defaultdict(set)
        for user, names in threads.items():
            for thread in names:
                users[without_thread(thread)].add(user)
        hidden: defaultdict[UserId, list[ConversationId]] = defaultdict(list)
        shown: defaultdict[UserId, list[ConversationId]] = defaultdict(list)
        for channel in channels:
            some = users.get(channel)
            if not some:
                continue
            exists = not policy.is_deleted and channel in policy.channels
            viewers = await self._rights.find_viewers(channel, some, policy.version) if exists else {}
            for user in some:
                (shown if user in viewers else hidden)[user].append(channel)
        await self._mark(hidden, threads, policy.version)
        await self._apply(
            [
                *((HideThreads(channels), users) for channels, users in _grouped(hidden).items()),
                *((ShowThreads(channels), users) for channels, users in _grouped(shown).items()),
            ]
        )

    async def _mark(self, hidden: Mapping[UserId, Sequence[ConversationId]], threads: _Threads, version: int) -> None:
        """Note in the rows of threads that a change hides them. At most one round trip."""
        updates = [
            Update({"_id": session_row_id(user, thread)}, {"$max": {HIDDEN_UNDER: version}})
            for user, channels in hidden.items()
            for thread in threads[user]
            if without_thread(thread) in channels
        ]
        if updates:
            await self._mongo.write([Write.updates(SESSIONS, updates)])

    async def _apply(self, changes: Sequence[tuple[Change, Sequence[UserId]]]) -> None:
        if not changes:
            return
        now_ms = self._clock.now_ms()
        calls = FanoutCalls(self._cache, now_ms)
        results = [calls.add_change(logged_change(change, now_ms, ""), users) for change, users in changes]
        await calls.run(self._cache.run)
        # The next load gives later ticks than those in rows, and than the time.
        await self._rows.keep_ticks(
            [
                Tick(user, session.conversation, session.active_ts)
                for result in results
                for user, applied in result.others
                for session in applied.sessions
                if applied.changed and not session.is_gateway and session.active_ts > now_ms
            ]
        )


def _grouped(channels: Mapping[UserId, list[ConversationId]]) -> dict[_Channels, list[UserId]]:
    """Return the users by the channels that are hidden or shown to them."""
    users: defaultdict[_Channels, list[UserId]] = defaultdict(list)
    for user, names in channels.items():
        users[tuple(names)].append(user)
    return users
