"""The rows of a deleted channel: sessions, messages, memberships, and its head. Removed in small steps."""

from __future__ import annotations

from pymongo import UpdateOne

from store.base.ids import ConversationId, UserId
from store.messages.message import message_from
from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import (
    BY_CHANNEL,
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    PLACE,
    SESSIONS,
    at_place,
    members_of,
)
from store.redis.cache import Cache
from store.sessions.changes import ForgetChannel, logged_change
from store.sessions.fields import CHANNEL, GONE
from store.sessions.session_store import SessionStore

ROWS_PER_STEP = 500


class ChannelContents:
    """Removes the rows of channels that nobody can see any more. Every step may be repeated."""

    def __init__(self, mongo: Mongo, origins: OriginStore, cache: Cache, sessions: SessionStore) -> None:
        self._mongo = mongo
        self._origins = origins
        self._cache = cache
        self._sessions = sessions

    async def remove_some(self, channel: ConversationId) -> bool:
        """Remove some rows. Return false if nothing is left."""
        for remove in (self._remove_sessions, self._remove_messages, self._remove_members):
            if await remove(channel):
                return True
        await self._mongo.delete_one(CONVERSATIONS, {"_id": channel})
        return False

    async def _remove_messages(self, channel: ConversationId) -> bool:
        """Remove some messages."""
        order = [(name, 1) for name, _ in PLACE]
        rows = await self._mongo.find(MESSAGES, {"c": channel}, sort=order, limit=ROWS_PER_STEP)
        if rows:
            messages = [message_from(row) for row in rows]
            await self._origins.remove(message.id for message in messages)
            await self._mongo.delete_each(MESSAGES, [at_place(channel, message.seq) for message in messages])
        return bool(rows)

    async def _remove_members(self, channel: ConversationId) -> bool:
        """Remove some members or followers."""
        rows = await self._mongo.find(MEMBERS, members_of(channel), projection={"_id": 1}, limit=ROWS_PER_STEP)
        if rows:
            await self._mongo.delete_ids(MEMBERS, [row["_id"] for row in rows])
        return bool(rows)

    async def _remove_sessions(self, channel: ConversationId) -> bool:
        """Remove some sessions, also from the users' cached states.

        Rows are marked first, so that a state that is loaded meanwhile does not have them, and are removed last, so
        that a server that continues after another one finds them.
        """
        query = {CHANNEL: channel}
        rows = await self._mongo.find(
            SESSIONS, query, projection={"_id": 1}, limit=ROWS_PER_STEP, hint=BY_CHANNEL, sort=BY_CHANNEL
        )
        if rows:
            marks = [UpdateOne({"_id": row["_id"]}, {"$set": {GONE: 1}}) for row in rows]
            await self._mongo.bulk_write(SESSIONS, marks)
            forget = logged_change(ForgetChannel(channel), 0, "")
            users = [UserId(row["_id"].partition(" ")[0]) for row in rows]
            await self._cache.run([self._sessions.apply_call(user, forget) for user in users])
            await self._mongo.delete_ids(SESSIONS, [row["_id"] for row in rows])
        return bool(rows)
