"""Removes the rows of deleted channels in the background.

A row in `removals` (`_id`: the channel, at: ms) is stored with the deletion, and removed last. A server takes it over
for a while; if that server dies, another one continues.
"""

from __future__ import annotations

from store.base.clock import Clock
from store.base.ids import ConversationId
from store.channels.channel_contents import ChannelContents
from store.conversations.conversation_store import ConversationStore
from store.mongo.client import Mongo
from store.mongo.collections import REMOVALS

DELAY_MS = 60_000
"""Time after the deletion, in which messages with a place are stored; and the time for which a server takes over."""

_CHANNELS = 10


class ChannelRemoval:
    """Removes the rows of channels that were deleted some time ago."""

    def __init__(self, mongo: Mongo, contents: ChannelContents, conversations: ConversationStore, clock: Clock) -> None:
        self._mongo = mongo
        self._contents = contents
        self._conversations = conversations
        self._clock = clock

    async def remove_due(self) -> int:
        """Remove the rows of channels that are due. Return their number. Raises StoreError; the next call continues."""
        due = {"at": {"$lte": self._clock.now_ms() - DELAY_MS}}
        removed = 0
        for row in await self._mongo.find(REMOVALS, due, limit=_CHANNELS):
            if await self._take_over(row["_id"], row["at"]):
                await self._remove(ConversationId(row["_id"]))
                removed += 1
        return removed

    async def _take_over(self, channel: str, at_ms: int) -> bool:
        """Keep other servers away for a while. False if another one has taken it."""
        now = {"$set": {"at": self._clock.now_ms()}}
        return bool(await self._mongo.update_one(REMOVALS, {"_id": channel, "at": at_ms}, now))

    async def _remove(self, channel: ConversationId) -> None:
        while await self._contents.remove_some(channel):
            await self._mongo.update_one(REMOVALS, {"_id": channel}, {"$set": {"at": self._clock.now_ms()}})
        await self._conversations.drop(channel)
        await self._mongo.delete_one(REMOVALS, {"_id": channel})
