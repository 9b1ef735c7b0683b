"""The rows of a deleted channel: messages, memberships, sessions, and its head. Removed in small steps."""

from __future__ import annotations

from collections.abc import Iterable

from store.base.ids import ConversationId, UserId
from store.messages.message import message_from
from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    PLACE,
    SESSIONS,
    at_place,
    members_of,
    session_row_id,
)

ROWS_PER_STEP = 500


class ChannelContents:
    """Removes the rows of channels that nobody can see any more. Every step may be repeated."""

    def __init__(self, mongo: Mongo, origins: OriginStore) -> None:
        self._mongo = mongo
        self._origins = origins

    async def remove_some(self, channel: ConversationId) -> bool:
        """Remove some rows. Return false if nothing is left."""
        if await self._remove_messages(channel) or await self._remove_members(channel):
            return True
        await self._mongo.delete_one(CONVERSATIONS, {"_id": channel})
        return False

    async def _remove_messages(self, channel: ConversationId) -> bool:
        """Remove some messages, with the sessions of those who wrote or were mentioned without following."""
        order = [(name, 1) for name, _ in PLACE]
        rows = await self._mongo.find(MESSAGES, {"c": channel}, sort=order, limit=ROWS_PER_STEP)
        if rows:
            messages = [message_from(row) for row in rows]
            await self._remove_sessions(channel, (user for m in messages for user in (m.sender, *m.mentions)))
            await self._origins.remove(message.id for message in messages)
            await self._mongo.delete_each(MESSAGES, [at_place(channel, message.seq) for message in messages])
        return bool(rows)

    async def _remove_members(self, channel: ConversationId) -> bool:
        """Remove some members or followers, with their sessions."""
        rows = await self._mongo.find(MEMBERS, members_of(channel), projection={"_id": 1}, limit=ROWS_PER_STEP)
        if rows:
            await self._remove_sessions(channel, (UserId(row["_id"][len(channel) + 1 :]) for row in rows))
            await self._mongo.delete_ids(MEMBERS, [row["_id"] for row in rows])
        return bool(rows)

    async def _remove_sessions(self, channel: ConversationId, users: Iterable[UserId]) -> None:
        await self._mongo.delete_ids(SESSIONS, [session_row_id(user, channel) for user in sorted(set(users))])
