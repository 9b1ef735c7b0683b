"""Followers of channels: a row as a member, the mark in the user's session, and the channel's count, as one change.

Rights do not depend on who follows a PUBLIC channel, so this raises no policy version. Members of PRIVATE channels are
changed with the policy; then `refresh` brings the user's cached session up to date.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from store.base.clock import Clock
from store.base.errors import Fenced, Superseded
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import workspace_of_channel
from store.conversations.conversation import Member, member_from
from store.conversations.conversation_fields import MemberField
from store.mongo.client import Document, Mongo
from store.mongo.collections import CHANNELS, MEMBERS, SESSIONS, member_row_id, session_row_id, workspace_row_id
from store.mongo.writes import is_duplicate
from store.redis.cache import Cache
from store.sessions.apply_results import NOT_CACHED, ApplyResult, parse_results
from store.sessions.changes import LoggedChange, logged_change
from store.sessions.channel_changes import ChannelChange
from store.sessions.fields import CHANNEL
from store.sessions.session import Session
from store.sessions.session_store import SessionStore
from store.sessions.user_locks import UserLock, UserLocks
from store.workspaces.policy import ChannelKind
from store.workspaces.workspace_fields import ChannelField

_ATTEMPTS = 5

_FOLLOWS, _ACTIVE_TS = Session.follows.stored, Session.active_ts.stored
_READ_SEQ, _READ_N = Session.acknowledged_seq.stored, Session.read_n.stored
_DELIVERED_SEQ, _MENTIONS = Session.received_seq.stored, Session.mentions.stored


class TooManyFollowedChannels(Exception):
    """The user follows as many channels of the workspace as allowed."""


class ChannelClosed(Exception):
    """The channel is archived, has become PRIVATE, or does not exist any more."""


class ChangedFollow(NamedTuple):
    """A session of a channel that the user follows from now on, or no longer, after the change.

    `at`: the time that MongoDB has, ms.
    """

    channel: ConversationId
    at: int
    result: ApplyResult


def follow_session(user: UserId, channel: ConversationId, place: tuple[int, int], at: int) -> UpdateOne:
    """Return the update of the session of a user who follows a channel, with everything up to a seq and n read."""
    seq, n = place
    positions = {_READ_SEQ: seq, _READ_N: n, _DELIVERED_SEQ: seq, _ACTIVE_TS: at}
    change = {"$set": {_FOLLOWS: 1, CHANNEL: channel}, "$max": positions, "$pull": {_MENTIONS: {"$lte": seq}}}
    return UpdateOne({"_id": session_row_id(user, channel)}, change, upsert=True)


def unfollow_session(user: UserId, channel: ConversationId, at: int) -> UpdateOne:
    """Return the update of the session of a user who no longer follows a channel. The read position stays."""
    return UpdateOne({"_id": session_row_id(user, channel)}, {"$unset": {_FOLLOWS: ""}, "$max": {_ACTIVE_TS: at}})


class ChannelFollows:
    """Changes and reads who follows channels."""

    def __init__(self, mongo: Mongo, cache: Cache, clock: Clock, locks: UserLocks, sessions: SessionStore) -> None:
        self._mongo = mongo
        self._cache = cache
        self._clock = clock
        self._locks = locks
        self._sessions = sessions

    async def count_members(self, channels: Collection[ConversationId]) -> dict[ConversationId, int]:
        """Return the numbers of members of PRIVATE channels, and of followers of others. One round trip to MongoDB."""
        ids = [workspace_row_id(workspace_of_channel(channel), channel) for channel in channels]
        rows = await self._mongo.find(CHANNELS, {"_id": {"$in": ids}}, projection={ChannelField.MEMBER_COUNT: 1})
        return {ConversationId(row["_id"].partition(" ")[2]): row.get(ChannelField.MEMBER_COUNT, 0) for row in rows}

    async def read_members(self, channel: ConversationId, users: Sequence[UserId]) -> dict[UserId, Member]:
        """Return the memberships of users, present and former. One round trip to MongoDB."""
        rows = {member_row_id(channel, user): user for user in users}
        found = await self._mongo.find(MEMBERS, {"_id": {"$in": list(rows)}})
        return {rows[row["_id"]]: member_from(rows[row["_id"]], row) for row in found}

    async def count_followed(self, user: UserId, channel: ConversationId) -> int:
        """Return how many channels a user follows in the workspace of a channel. One round trip to MongoDB."""
        inside = channel.partition(".")[0]
        first, end = (session_row_id(user, ConversationId(inside + last)) for last in "./")
        query = {"_id": {"$gte": first, "$lt": end}, _FOLLOWS: 1}
        return len(await self._mongo.find(SESSIONS, query, projection={"_id": 1}))

    async def follow(
        self, user: UserId, channel: ConversationId, place: tuple[int, int], most: int, event: str
    ) -> ChangedFollow | None:
        """Let a user follow a channel that is not PRIVATE. Returns None if they follow it already.

        Args:
            user: The user.
            channel: The channel.
            place: seq and n up to which everything is read.
            most: Largest number of followed channels of a workspace.
            event: The entry in the user's log.

        Raises:
            TooManyFollowedChannels: Nothing was changed. So with ChannelClosed.
            StoreError: It may have been changed.
        """
        row = member_row_id(channel, user)
        for _ in range(_ATTEMPTS):
            async with self._locks.hold(user, (), loads=False) as lock:
                if await self._mongo.find_one(MEMBERS, {"_id": row}) is not None:
                    return None
                if await self.count_followed(user, channel) >= most:
                    raise TooManyFollowedChannels
                member = Member(user, "", ((place[0] + 1, None),), lock.at).to_fields()
                session = follow_session(user, channel, place, lock.at)
                try:
                    return await self._change(lock, user, channel, InsertOne({"_id": row} | member), session, 1, event)
                except Superseded:
                    continue
        raise ChannelClosed

    async def unfollow(self, user: UserId, channel: ConversationId, event: str) -> ChangedFollow | None:
        """End the following of a channel that is not PRIVATE. None: the user does not follow it. Raises as `follow`."""
        row = member_row_id(channel, user)
        for _ in range(_ATTEMPTS):
            async with self._locks.hold(user, (), loads=False) as lock:
                if await self._mongo.find_one(MEMBERS, {"_id": row}) is None:
                    return None
                session = unfollow_session(user, channel, lock.at)
                try:
                    return await self._change(lock, user, channel, DeleteOne({"_id": row}), session, -1, event)
                except Superseded:
                    continue
        raise ChannelClosed

    async def _change(
        self,
        lock: UserLock,
        user: UserId,
        channel: ConversationId,
        member: InsertOne[Document] | DeleteOne,
        session_update: UpdateOne,
        count: int,
        event: str,
    ) -> ChangedFollow:
        """Store a change of a follower, all or nothing, and apply it. Raises Superseded: another change was first."""
        is_open: Document = {
            "_id": workspace_row_id(workspace_of_channel(channel), channel),
            ChannelField.KIND: {"$ne": ChannelKind.PRIVATE.value},
        }
        if count > 0:
            is_open[ChannelField.IS_ARCHIVED] = {"$exists": False}

        async def work(session: Any) -> None:
            # A row that is gone is found out by a write, as a row that exists is.
            query = {"_id": member_row_id(channel, user)}
            if count < 0 and not await self._mongo.find_one_and_update(
                MEMBERS, query, {"$set": {MemberField.ROLE: ""}}, session=session
            ):
                raise Superseded("the user does not follow it any more")
            try:
                await self._mongo.bulk_write(MEMBERS, [member], session=session)
            except BulkWriteError as error:
                raise (Superseded("the user follows it already") if is_duplicate(error) else error) from error
            await self._mongo.bulk_write(SESSIONS, [session_update], session=session)
            # Last, because everybody who follows the channel writes this document.
            counted = {"$inc": {ChannelField.MEMBER_COUNT: count}}
            if await self._mongo.find_one_and_update(CHANNELS, is_open, counted, session=session) is None:
                raise ChannelClosed

        with lock.changing():
            await self._mongo.transaction(work)
            (followed,) = await self._apply_rows(lock, user, (channel,), event)
        return followed

    async def refresh(self, user: UserId, channels: Sequence[ConversationId], event: str) -> list[ChangedFollow]:
        """Bring the cached sessions of a user in channels up to date with MongoDB. It may be repeated."""
        async with self._locks.hold(user, (), loads=False) as lock:
            with lock.changing():
                return await self._apply_rows(lock, user, channels, event)

    async def _apply_rows(
        self, lock: UserLock, user: UserId, channels: Sequence[ConversationId], event: str
    ) -> list[ChangedFollow]:
        """Apply the rows of sessions to the cached state, and release the lock. Raises Fenced."""
        ids = [session_row_id(user, channel) for channel in channels]
        rows = await self._mongo.find(SESSIONS, {"_id": {"$in": ids}})
        changes = [_change_to(ConversationId(row["_id"][len(user) + 1 :]), row, event) for row in rows]
        answer = await self._cache.one(
            self._sessions.apply_call(user, *(change for _, _, change in changes), token=lock.token)
        )
        if answer[0] == b"fenced":
            raise Fenced("the lock ended before the change was applied")
        results = parse_results(user, answer) if changes else []
        if results == [NOT_CACHED]:
            results = [NOT_CACHED] * len(changes)
        return [ChangedFollow(channel, at, result) for (channel, at, _), result in zip(changes, results, strict=True)]


def _change_to(channel: ConversationId, row: Document, event: str) -> tuple[ConversationId, int, LoggedChange]:
    """Return the change that brings a cached session to what a row has."""
    place, at = (row[_READ_SEQ], row[_READ_N]), row.get(_ACTIVE_TS, 0)
    change = ChannelChange(
        channel, place, read=place, delivered_seq=row[_DELIVERED_SEQ], values={Session.follows: bool(row.get(_FOLLOWS))}
    )
    return channel, at, logged_change(change, at, event)
