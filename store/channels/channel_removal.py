"""Removes the messages and other rows of deleted channels, in the background.

A row in `removals` (`_id`: the channel, at: ms) is stored with the deletion, and removed last. A server takes it over
for a while; if that server dies, another one goes on. Every step may be repeated.
"""

from __future__ import annotations

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.conversations.conversation_store import ConversationStore
from store.messages.message import message_from
from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    MESSAGES,
    PLACE,
    REMOVALS,
    SESSIONS,
    between_places,
    members_of,
    session_row_id,
)

DELAY_MS = 60_000
"""Time after the deletion, in which messages with a place are stored; and the time for which a server takes over."""

_CHANNELS = 10
_ROWS = 500


class ChannelRemoval:
    """Removes the rows of channels that were deleted some time ago."""

    def __init__(self, mongo: Mongo, conversations: ConversationStore, clock: Clock) -> None:
        self._mongo = mongo
        self._conversations = conversations
        self._origins = OriginStore(mongo)
        self._clock = clock

    async def remove_due(self) -> int:
        """Remove the rows of channels that are due. Return their number. Raises StoreError; the next call goes on."""
        due = {"at": {"$lte": self._clock.now_ms() - DELAY_MS}}
        removed = 0
        for row in await self._mongo.find(REMOVALS, due, limit=_CHANNELS):
            if await self._take_over(row["_id"], row["at"]):
                await self._remove(ConversationId(row["_id"]))
                removed += 1
        return removed

    async def _take_over(self, channel: str, at_ms: int) -> bool:
        """Keep other servers away for a while. False if another one was faster."""
        now = {"$set": {"at": self._clock.now_ms()}}
        return bool(await self._mongo.update_one(REMOVALS, {"_id": channel, "at": at_ms}, now))

    async def _remove(self, channel: ConversationId) -> None:
        order = [(name, 1) for name, _ in PLACE]
        while rows := await self._mongo.find(MESSAGES, {"c": channel}, sort=order, limit=_ROWS):
            messages = [message_from(row) for row in rows]
            await self._remove_sessions(channel, {user for m in messages for user in (m.sender, *m.mentions)})
            await self._origins.remove(messages)
            await self._mongo.delete_many(MESSAGES, between_places(channel, messages[0].seq, messages[-1].seq))
            await self._mongo.update_one(REMOVALS, {"_id": channel}, {"$set": {"at": self._clock.now_ms()}})
        while members := await self._mongo.find(MEMBERS, members_of(channel), projection={"_id": 1}, limit=_ROWS):
            ids = [row["_id"] for row in members]
            await self._remove_sessions(channel, {UserId(id[len(channel) + 1 :]) for id in ids})
            await self._mongo.delete_ids(MEMBERS, ids)
        await self._mongo.delete_ids(CONVERSATIONS, [channel])
        await self._conversations.drop(channel)
        await self._mongo.delete_ids(REMOVALS, [channel])

    async def _remove_sessions(self, channel: ConversationId, users: set[UserId]) -> None:
        await self._mongo.delete_ids(SESSIONS, [session_row_id(user, channel) for user in sorted(users)])
