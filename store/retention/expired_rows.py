"""Rows of `expired`: conversations with expired messages that have to be removed, and a lease."""

from __future__ import annotations

from typing import NamedTuple

from pymongo import UpdateOne

from store.base.clock import Clock
from store.base.ids import ConversationId
from store.mongo.client import Mongo
from store.mongo.collections import EXPIRED
from store.mongo.index_fields import BY_EXPIRED
from store.mongo.mongo_clock import MONGO_NOW
from store.mongo.writes import Update, Write

GRACE_MS = 60_000
"""Time after which messages are removed: earlier requests have ended then. If a server has not renewed its claim for
this time, another one continues."""

_LEASE_MS = 30_000
_LEASE = "-"
"""`_id` of the row of the server that looks for messages that expire."""

_AT = "at"
"""When a server began to work on the conversation, or the floor was raised (ms)."""
_VERSION = "v"
"""Number of times that the floor was raised."""
_OWNER, _UNTIL = "o", "u"
"""Of the lease: the server, and until when it has it (time of MongoDB)."""


class ExpiredRow(NamedTuple):
    """A conversation with messages to remove. version: how often its floor had been raised when it was claimed."""

    conversation: ConversationId
    version: int


class ExpiredRows:
    """Reads and changes these rows."""

    def __init__(self, mongo: Mongo, clock: Clock, owner: str) -> None:
        self._mongo = mongo
        self._clock = clock
        self._owner = owner

    async def add(self, conversations: list[ConversationId]) -> None:
        """Note that the floor of conversations is raised."""
        update = {"$setOnInsert": {_AT: self._clock.now_ms()}, "$inc": {_VERSION: 1}}
        await self._mongo.bulk_write(EXPIRED, [UpdateOne({"_id": name}, update, upsert=True) for name in conversations])

    async def claim(self) -> ExpiredRow | None:
        """Claim a conversation that is due, so that other servers leave it out for GRACE_MS. Return it, or None."""
        now_ms = self._clock.now_ms()
        due = {_AT: {"$lte": now_ms - GRACE_MS}}
        for row in await self._mongo.find(EXPIRED, due, sort=BY_EXPIRED, limit=10, hint=BY_EXPIRED):
            unchanged = {"_id": row["_id"], _AT: row[_AT]}
            if await self._mongo.update_one(EXPIRED, unchanged, {"$set": {_AT: now_ms}}):
                return ExpiredRow(ConversationId(row["_id"]), row[_VERSION])
        return None

    async def renew(self, row: ExpiredRow) -> None:
        """Renew the claim of a conversation."""
        await self._mongo.update_one(EXPIRED, {"_id": row.conversation}, {"$set": {_AT: self._clock.now_ms()}})

    async def remove(self, row: ExpiredRow) -> None:
        """Remove the row of a conversation of which everything is removed, unless its floor was raised meanwhile."""
        await self._mongo.delete_one(EXPIRED, {"_id": row.conversation, _VERSION: row.version})

    async def lease_search(self) -> bool:
        """Take or extend the lease of the search for messages that expire. False if another server has it."""
        first = Update({"_id": _LEASE}, {"$setOnInsert": {_UNTIL: 0}}, upsert=True)
        await self._mongo.write([Write.updates(EXPIRED, [first], may_collide=True)])
        free = {"$or": [{"$eq": [f"${_OWNER}", self._owner]}, {"$lt": [{"$ifNull": [f"${_UNTIL}", 0]}, MONGO_NOW]}]}
        lease = [{"$set": {_OWNER: self._owner, _UNTIL: {"$add": [MONGO_NOW, _LEASE_MS]}}}]
        return await self._mongo.find_one_and_update(EXPIRED, {"_id": _LEASE, "$expr": free}, lease) is not None
