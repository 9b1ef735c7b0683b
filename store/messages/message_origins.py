"""Which conversation a message is of, where MongoDB is a cluster of shards: its messages lie by conversation, and an id names none.

`origins` {_id, c conversation}, sharded by `_id`: that of a message, or "<user> <idempotency key>" of one that was sent with a
key (until: a day later, when MongoDB removes it). Written with the message, in the same round trip. On a replica set the indexes
of `messages` lead everywhere, and nothing is written here; `confab shard` does so for what was stored before it was one of shards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import created_at_ms
from store.messages.records import Message
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, ORIGINS

KEY_SECONDS = 24 * 3600
"""How long an idempotency key stands for its message."""

_FILLED = "filled"
_PORTION = 1_000


class OriginStore:
    """Origins in MongoDB. Without any: on a replica set every method answers as if there were no need of them."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._filled = False

    def writes(self, messages: Iterable[Message]) -> list[Awaitable[Any]]:
        """What notes messages, to go to MongoDB together with them. May be repeated."""
        rows = [row for message in messages for row in _rows_of(message)] if self._mongo.is_sharded else []
        return [self._mongo.insert_each(ORIGINS, rows)] if rows else []

    async def insert(self, message: Message, session: Any) -> None:
        """Notes a message within a transaction."""
        if self._mongo.is_sharded:
            await self._mongo.insert_many(ORIGINS, _rows_of(message), session)

    async def query_for(self, messages: Sequence[MessageId]) -> Document | None:
        """The query for messages by id, with their conversations where these tell the shards. None: there are none of them."""
        by_id = {"_id": {"$in": [int(message) for message in messages]}}
        if not self._mongo.is_sharded:
            return by_id
        rows = await self._mongo.find(ORIGINS, by_id)
        if len(rows) < len(set(messages)) and not await self._is_filled():
            # Some may be older than this collection.
            return by_id
        return by_id | {"c": {"$in": sorted({row["c"] for row in rows})}} if rows else None

    async def of_key(self, conversation: ConversationId, sender: UserId, key: str) -> Document:
        """What a query by idempotency key has to name besides, so that it goes where messages of that key are."""
        if not self._mongo.is_sharded:
            return {}
        row = await self._mongo.find_one(ORIGINS, {"_id": _key_row(sender, key)})
        return {"c": {"$in": sorted({conversation, row["c"]} if row is not None else {conversation})}}

    async def _is_filled(self) -> bool:
        if not self._filled:
            self._filled = await self._mongo.find_one(ORIGINS, {"_id": _FILLED}) is not None
        return self._filled

    async def fill(self) -> int:
        """Notes all messages that were stored before any were noted. Answers how many that were; 0 once it was done.

        Begun while servers note what they store: from then on, what is not here does not exist. May be repeated.
        """
        if await self._is_filled():
            return 0
        last, count = -1, 0
        while True:
            rows = await self._mongo.find(
                MESSAGES, {"_id": {"$gt": last}}, projection={"c": 1}, sort=[("_id", 1)], limit=_PORTION
            )
            if not rows:
                break
            await self._mongo.insert_each(ORIGINS, [{"_id": row["_id"], "c": row["c"]} for row in rows])
            last, count = rows[-1]["_id"], count + len(rows)
        await self._mongo.insert_each(ORIGINS, [{"_id": _FILLED}])
        return count


def _rows_of(message: Message) -> list[Document]:
    rows: list[Document] = [{"_id": int(message.id), "c": message.conversation}]
    if message.key is not None:
        until = datetime.fromtimestamp(created_at_ms(message.id) / 1000 + KEY_SECONDS, UTC)
        rows.append({"_id": _key_row(message.sender, message.key), "c": message.conversation, "until": until})
    return rows


def _key_row(sender: UserId, key: str) -> str:
    return f"{sender} {key}"
