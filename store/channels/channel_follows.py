"""Followers of channels: a row as a member, the mark in the user's session, and the channel's count, as one change.

Rights do not depend on who follows a PUBLIC channel, so this raises no policy version. Members of PRIVATE channels are
changed with the policy; then `refresh` brings the user's cached session up to date.

The locks of all users concerned are held. If the server dies after the transaction, the locks that were not released
drop the cached states, which lack the change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple

from store.base.errors import Fenced, Refused, Superseded
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.channels.follow_rows import (
    FOLLOWS,
    ChannelPlace,
    find_rows,
    follow_row,
    follow_session,
    note_change,
    unfollow_row,
    unfollow_session,
)
from store.conversations.conversation import Member
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    AUDIT,
    CHANNELS,
    MEMBERS,
    SESSIONS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    session_row_id,
    workspace_row_id,
)
from store.redis.cache import Cache
from store.sessions.apply_results import NOT_CACHED, ApplyResult, parse_results
from store.sessions.changes import LoggedChange, logged_change
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.sessions.session_store import SessionStore
from store.sessions.user_locks import UserLock, UserLocks
from store.workspaces.policy import ChannelKind, Policy
from store.workspaces.workspace_fields import ChannelField, WorkspaceField

MAX_FOLLOWED = 500
"""Channels of one workspace that a user may follow."""

USERS_AT_ONCE = 50
"""Users whose locks one change holds."""

_READ_SEQ, _READ_N = Session.acknowledged_seq.stored, Session.read_n.stored
_DELIVERED_SEQ, _ACTIVE_TS = Session.received_seq.stored, Session.active_ts.stored

Entry = Callable[[ConversationId], str]
"""Returns the entry in the user's log for a change of the session in a channel."""


class TooManyFollowedChannels(Refused):
    """A user follows as many channels of the workspace as allowed."""


class ChannelArchived(Refused):
    """The channel is archived: it gets no new followers."""


class _NothingChanges(Refused):
    """All users follow the channel already, or none does."""


class ChangedFollow(NamedTuple):
    """A session of a channel that the user follows from now on, or no longer, after the change.

    `at`: the time that MongoDB has, ms.
    """

    channel: ConversationId
    at: int
    result: ApplyResult


class ChannelFollows:
    """Changes and reads who follows channels."""

    def __init__(self, mongo: Mongo, cache: Cache, locks: UserLocks, sessions: SessionStore) -> None:
        self._mongo = mongo
        self._cache = cache
        self._locks = locks
        self._sessions = sessions

    async def count_members(self, channels: Collection[ConversationId]) -> dict[ConversationId, int]:
        """Return the numbers of members of PRIVATE channels, and of followers of others. One round trip to MongoDB."""
        ids = [workspace_row_id(workspace_of_channel(channel), channel) for channel in channels]
        rows = await self._mongo.find(CHANNELS, {"_id": {"$in": ids}}, projection={ChannelField.MEMBER_COUNT: 1})
        return {ConversationId(row["_id"].partition(" ")[2]): row.get(ChannelField.MEMBER_COUNT, 0) for row in rows}

    async def read_members(self, channel: ConversationId, users: Sequence[UserId]) -> dict[UserId, Member]:
        """Return the memberships of users, present and former. One round trip to MongoDB."""
        return {user: member for (_, user), member in (await find_rows(self._mongo, (channel,), users)).items()}

    async def list_at_limit(self, policy: Policy, users: Iterable[UserId], session: Any = None) -> list[UserId]:
        """Return those users who follow as many channels as allowed.

        No round trip in a workspace with fewer channels; else one to MongoDB for each user.
        """
        if len(policy.channels) < MAX_FOLLOWED:
            return []
        inside = f"c_{policy.workspace[2:]}"
        full = []
        for user in users:
            first, end = (session_row_id(user, ConversationId(inside + last)) for last in "./")
            query = {"_id": {"$gte": first, "$lt": end}, FOLLOWS: 1}
            rows = await self._mongo.find(SESSIONS, query, projection={"_id": 1}, session=session)
            # Rows of deleted channels are removed later.
            if sum(row["_id"][len(user) + 1 :] in policy.channels for row in rows) >= MAX_FOLLOWED:
                full.append(user)
        return full

    async def follow(
        self,
        policy: Policy,
        users: Collection[UserId],
        place: ChannelPlace,
        entry: Entry,
        audit: Mapping[UserId, Document] = MappingProxyType({}),
    ) -> dict[UserId, ChangedFollow]:
        """Let up to USERS_AT_ONCE members follow a channel that is not PRIVATE, all or none.

        Args:
            policy: The policy under which they may see the channel.
            users: The users. Those who follow it already are skipped.
            place: The channel, and its newest message.
            entry: For the users' logs.
            audit: Rows of the audit log, for users who do not follow it yet.

        Returns the changes of those who did not follow it.

        Raises:
            Superseded: The policy is not the newest one, or a user is no longer a member: judge rights again.
            TooManyFollowedChannels: Nothing was changed. So with ChannelArchived.
            StoreError: It may have been changed.
        """
        new: list[UserId] = []
        async with self._locks.hold_all(users) as locks:

            async def work(session: Any) -> None:
                await self._require_version(policy, session)
                rows = await find_rows(self._mongo, (place.id,), list(locks), session)
                new[:] = [user for user in locks if not _is_current(rows.get((place.id, user)))]
                if not new:
                    raise _NothingChanges
                if policy.channels[place.id].is_archived:
                    raise ChannelArchived
                await self._note(policy.workspace, new, session)
                if await self.list_at_limit(policy, new, session):
                    raise TooManyFollowedChannels
                members = [follow_row(user, place, locks[user].at, rows.get((place.id, user))) for user in new]
                await self._mongo.bulk_write(MEMBERS, members, session=session)
                sessions = [follow_session(user, place, locks[user].at) for user in new]
                await self._mongo.bulk_write(SESSIONS, sessions, session=session)
                if rows_of_log := [audit[user] for user in new if user in audit]:
                    await self._mongo.insert_many(AUDIT, rows_of_log, session=session)
                await self._count(place.id, len(new), session)

            try:
                changed = await self.commit(locks, (place.id,), work, entry)
            except _NothingChanges:
                return {}
        return {user: changed[user][0] for user in new}

    async def unfollow(
        self, policy: Policy, user: UserId, channel: ConversationId, entry: Entry
    ) -> ChangedFollow | None:
        """End the following of a channel that is not PRIVATE. None: the user does not follow it. Raises as `follow`."""
        async with self._locks.hold_all((user,)) as locks:

            async def work(session: Any) -> None:
                member = (await find_rows(self._mongo, (channel,), (user,), session)).get((channel, user))
                if member is None or not member.is_current:
                    raise _NothingChanges
                await self._note(policy.workspace, (user,), session)
                await self._mongo.bulk_write(MEMBERS, [unfollow_row(channel, member)], session=session)
                ended = unfollow_session(user, channel, locks[user].at)
                await self._mongo.bulk_write(SESSIONS, [ended], session=session)
                await self._count(channel, -1, session)

            try:
                changed = await self.commit(locks, (channel,), work, entry)
            except _NothingChanges:
                return None
        return changed[user][0]

    async def _require_version(self, policy: Policy, session: Any) -> None:
        query, version = {"_id": policy.workspace}, WorkspaceField.POLICY_VERSION
        rows = await self._mongo.find(WORKSPACES, query, projection={version: 1}, limit=1, session=session)
        if not rows or rows[0][version] != policy.version:
            raise Superseded("the policy has changed since the change was decided")

    async def _note(self, workspace: WorkspaceId, users: Collection[UserId], session: Any) -> None:
        """Make this transaction conflict with others that change what these members follow, or end a membership."""
        notes = [note_change(workspace, user) for user in users]
        if await self._mongo.bulk_write(WORKSPACE_MEMBERS, notes, session=session) < len(notes):
            raise Superseded("a user is not a member of the workspace any more")

    async def _count(self, channel: ConversationId, change: int, session: Any) -> None:
        """Change the channel's count. Everybody who follows it writes this document, so this is the last write."""
        is_open: Document = {
            "_id": workspace_row_id(workspace_of_channel(channel), channel),
            ChannelField.KIND: {"$ne": ChannelKind.PRIVATE.value},
        }
        if change > 0:
            is_open[ChannelField.IS_ARCHIVED] = {"$exists": False}
        counted = {"$inc": {ChannelField.MEMBER_COUNT: change}}
        if await self._mongo.find_one_and_update(CHANNELS, is_open, counted, session=session) is None:
            raise Superseded("the channel is archived, has become PRIVATE, or does not exist any more")

    async def commit(
        self,
        locks: Mapping[UserId, UserLock],
        channels: Collection[ConversationId],
        work: Callable[[Any], Awaitable[None]],
        entry: Entry,
    ) -> dict[UserId, list[ChangedFollow]]:
        """Run a transaction that changes which of some channels users follow, and apply it to their cached states.

        locks: The locks of the users, which it releases. Errors of `work` are raised again; after Refused, nothing was
            stored.
        """
        with ExitStack() as stack:
            for lock in locks.values():
                stack.enter_context(lock.changing())
            await self._mongo.transaction(work)
            return await self._apply_rows(locks, channels, entry)

    async def refresh(self, user: UserId, channels: Collection[ConversationId], entry: Entry) -> list[ChangedFollow]:
        """Bring the cached sessions of a user in channels up to date with MongoDB. It may be repeated."""
        async with self._locks.hold_all((user,)) as locks:
            with locks[user].changing():
                return (await self._apply_rows(locks, channels, entry))[user]

    async def _apply_rows(
        self, locks: Mapping[UserId, UserLock], channels: Collection[ConversationId], entry: Entry
    ) -> dict[UserId, list[ChangedFollow]]:
        """Apply the rows of sessions to the cached states, and release the locks. Raises Fenced."""
        users = {session_row_id(user, channel): user for user in locks for channel in channels}
        changes: dict[UserId, list[tuple[ConversationId, int, LoggedChange]]] = {user: [] for user in locks}
        for row in await self._mongo.find(SESSIONS, {"_id": {"$in": list(users)}}):
            user = users[row["_id"]]
            changes[user].append(_change_to(ConversationId(row["_id"][len(user) + 1 :]), row, entry))
        calls = [
            self._sessions.apply_call(user, *(change for _, _, change in changes[user]), token=lock.token)
            for user, lock in locks.items()
        ]
        changed: dict[UserId, list[ChangedFollow]] = {}
        for user, answer in zip(locks, await self._cache.run(calls), strict=True):
            if answer[0] == b"fenced":
                raise Fenced("the lock ended before the change was applied")
            results = parse_results(user, answer) if changes[user] else []
            if results == [NOT_CACHED]:
                results = [NOT_CACHED] * len(changes[user])
            changed[user] = [
                ChangedFollow(channel, at, result)
                for (channel, at, _), result in zip(changes[user], results, strict=True)
            ]
        return changed


def _is_current(member: Member | None) -> bool:
    return member is not None and member.is_current


def _change_to(channel: ConversationId, row: Document, entry: Entry) -> tuple[ConversationId, int, LoggedChange]:
    """Return the change that brings a cached session to what a row has."""
    place, at = (row[_READ_SEQ], row[_READ_N]), row.get(_ACTIVE_TS, 0)
    change = ChannelChange(
        channel, place, read=place, delivered_seq=row[_DELIVERED_SEQ], values={Session.follows: bool(row.get(FOLLOWS))}
    )
    return channel, at, logged_change(change, at, entry(channel))
