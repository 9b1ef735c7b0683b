"""Origins: the conversation of each message, on a sharded cluster.

On such a cluster messages are sharded by conversation, which cannot be derived from a message's id. `origins`
{_id, c: conversation} is sharded by `_id`: a message's id, or "<user> <idempotency key>" of a message that was sent
with one (until: a day later, when MongoDB removes it). Written with the message, in the same round trip. On a replica
set the indexes of `messages` suffice, and nothing is written here. `confab shard` writes the origins of messages that
were stored before the cluster was sharded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import created_at_ms
from store.messages.message import Message
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, ORIGINS
from store.mongo.writes import Write

KEY_SECONDS = 24 * 3600
"""Time for which an idempotency key stands for its message."""

_FILLED = "filled"
"""`_id` of the row that says that all messages have origins."""

_BATCH = 1_000


class OriginStore:
    """Origins in MongoDB. On a replica set every method answers as if they were not needed."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._filled = False

    def prepare_writes(self, messages: Iterable[Message]) -> list[Write]:
        """Return the writes that store messages' origins, to be sent with the messages. May be repeated."""
        rows = [row for message in messages for row in _rows_of(message)] if self._mongo.is_sharded else []
        return [Write.inserts(ORIGINS, rows)] if rows else []

    async def save(self, messages: Iterable[Message]) -> None:
        """Store messages' origins. May be repeated."""
        writes = self.prepare_writes(messages)
        if writes:
            await self._mongo.write(writes)

    async def insert(self, message: Message, session: Any) -> None:
        """Store a message's origin within a transaction."""
        if self._mongo.is_sharded:
            await self._mongo.insert_many(ORIGINS, _rows_of(message), session)

    async def remove(self, messages: Iterable[int]) -> None:
        """Remove the origins of messages that are being removed. Those of idempotency keys end by themselves."""
        if self._mongo.is_sharded:
            await self._mongo.delete_ids(ORIGINS, list(messages))

    async def query_for(self, messages: Sequence[MessageId]) -> Document | None:
        """Return the query for messages by id, which names their conversations on a sharded cluster.

        None if none of them exists.
        """
        by_id = {MessageField.ID: {"$in": [int(message) for message in messages]}}
        if not self._mongo.is_sharded:
            return by_id
        rows = await self._mongo.find(ORIGINS, by_id)
        if len(rows) < len(set(messages)) and not await self._is_filled():
            # Some may be older than this collection.
            return by_id
        return by_id | {MessageField.CONVERSATION: {"$in": sorted({row["c"] for row in rows})}} if rows else None

    async def query_of_key(self, conversation: ConversationId, sender: UserId, key: str) -> Document:
        """Return the additional condition of a query by idempotency key that leads it to the right shards."""
        if not self._mongo.is_sharded:
            return {}
        row = await self._mongo.find_one(ORIGINS, {"_id": _key_row(sender, key)})
        conversations = {conversation, row["c"]} if row is not None else {conversation}
        return {MessageField.CONVERSATION: {"$in": sorted(conversations)}}

    async def _is_filled(self) -> bool:
        if not self._filled:
            self._filled = await self._mongo.find_one(ORIGINS, {"_id": _FILLED}) is not None
        return self._filled

    async def fill(self) -> int:
        """Store origins of all messages that were stored before. Return their number; 0 if it was done already.

        Call it while servers store origins of new messages. After that, a message without an origin does not exist.
        May be repeated.
        """
        if await self._is_filled():
            return 0
        last, count = -1, 0
        fields = {MessageField.CONVERSATION: 1}
        while True:
            query = {MessageField.ID: {"$gt": last}}
            order = [(MessageField.ID, 1)]
            rows = await self._mongo.find(MESSAGES, query, projection=fields, sort=order, limit=_BATCH)
            if not rows:
                break
            origins = [{"_id": row[MessageField.ID], "c": row[MessageField.CONVERSATION]} for row in rows]
            await self._mongo.insert_each(ORIGINS, origins)
            last, count = rows[-1][MessageField.ID], count + len(rows)
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
