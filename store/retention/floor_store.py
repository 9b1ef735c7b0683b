"""Raises the floors of conversations in MongoDB and Redis, so that no reader sees expired messages (ADR 99)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pymongo import UpdateOne

from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.conversations.conversation_fields import ConversationField, PinField
from store.messages.message_store import Place
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.retention.expired_rows import ExpiredRows

_F = ConversationField
_CONVERSATIONS_AT_ONCE = 250


class FloorStore:
    """Raises floors. They never go down."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys, expired: ExpiredRows) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._expired = expired

    async def raise_many(self, floors: Mapping[ConversationId, Place]) -> None:
        """Raise floors. When this returns, no server reads a head with an earlier one. May be repeated.

        Raises StoreError: some floors may be raised, and the removal raises the others in Redis.
        """
        names = list(floors)
        for start in range(0, len(names), _CONVERSATIONS_AT_ONCE):
            part = {name: floors[name] for name in names[start : start + _CONVERSATIONS_AT_ONCE]}
            # First, so that the removal finds all conversations whose floor was raised.
            await self._expired.add(list(part))
            await self._mongo.bulk_write(CONVERSATIONS, [u for name, to in part.items() for u in _updates(name, to)])
            await self.raise_in_redis(list(part))

    async def raise_in_redis(self, conversations: Sequence[ConversationId]) -> None:
        """Bring the floors in Redis to those in MongoDB."""
        fields = (_F.FLOOR_SEQ, _F.FLOOR_N, _F.PIN_VERSION, _F.PINS)
        query = {"_id": {"$in": list(conversations)}, _F.FLOOR_SEQ: {"$exists": True}}
        rows = await self._mongo.find(CONVERSATIONS, query, projection=dict.fromkeys(fields, 1))
        try:
            self._cache.require_shared()
        except Unreachable:
            # Without Redis, no server has a head. The removal does this again for servers that find Redis earlier.
            return
        if rows:
            await self._cache.run([self._call(row) for row in rows])

    def _call(self, row: Document) -> Call:
        pins = row.get(_F.PIN_VERSION, 0), len(row.get(_F.PINS, ()))
        return Call("raise_floor", self._keys.conversation(row["_id"]), (row[_F.FLOOR_SEQ], row[_F.FLOOR_N], *pins))


def _updates(name: ConversationId, floor: Place) -> list[UpdateOne]:
    # The head keeps the numbers of messages that are removed, so that none is given to another message.
    highest = {_F.FLOOR_SEQ: floor.seq, _F.FLOOR_N: floor.n, _F.SEQ: floor.seq, _F.N: floor.n}
    expired = {"$lte": floor.seq}
    return [
        UpdateOne({"_id": name}, {"$max": highest, "$pull": {_F.MENTIONS_ALL: expired}}),
        UpdateOne(
            {"_id": name, f"{_F.PINS}.{PinField.SEQ}": expired},
            {"$pull": {_F.PINS: {PinField.SEQ: expired}}, "$inc": {_F.PIN_VERSION: 1}},
        ),
    ]
