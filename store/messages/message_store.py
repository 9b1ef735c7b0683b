"""Stored messages: single ones and ranges of a conversation. Each method is one round trip unless it says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from store.base.ids import ConversationId, MessageId, UserId, bucket_of
from store.base.snowflakes import first_id_at
from store.messages.message import Message, MessageKind, message_from
from store.messages.message_fields import MessageField
from store.messages.message_origins import OriginStore
from store.mongo.client import Mongo
from store.mongo.collections import MESSAGES, at_place, between_places
from store.mongo.index_fields import BY_ID, PLACE

_MAX_RANGES = 250
"""Conversations that one query reads at most."""

_COUNTABLE = {MessageField.KIND: {"$ne": MessageKind.SYSTEM.value}}


class Place(NamedTuple):
    """A message's place in its conversation. `n`: countable messages up to it."""

    seq: int
    n: int


class MessageStore:
    """Reads messages in MongoDB. They are inserted by `CommitStore` and changed by `RevisionStore`.

    A seq is never used twice. If two servers assigned the same one, the second write fails.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self.origins = OriginStore(mongo)

    async def find_many(
        self, places: Iterable[tuple[ConversationId, int]]
    ) -> dict[tuple[ConversationId, int], Message]:
        """Return the messages that exist at some places, by conversation and seq."""
        wanted = list(places)
        if not wanted:
            return {}
        query = {"$or": [at_place(c, s) for c, s in wanted]}
        rows = await self._mongo.find(MESSAGES, query)
        return {(m.conversation, m.seq): m for m in map(message_from, rows)}

    async def find_by_ids(self, ids: Iterable[MessageId]) -> dict[MessageId, Message]:
        """Return the messages that exist, by id. Two round trips on a sharded cluster."""
        wanted = list(ids)
        query = await self.origins.query_for(wanted)
        rows = await self._mongo.find(MESSAGES, query) if query is not None else []
        return {m.id: m for m in map(message_from, rows)}

    async def find_in_conversation(self, conversation: ConversationId, message: MessageId) -> Message | None:
        """Return a message of a conversation by its id."""
        query = {MessageField.ID: int(message), MessageField.CONVERSATION: conversation}
        rows = await self._mongo.find(MESSAGES, query, hint=BY_ID)
        return message_from(rows[0]) if rows else None

    async def find_by_key(
        self, conversation: ConversationId, sender: UserId, key: str, since_ms: int
    ) -> Message | None:
        """Return the message that a sender stored with an idempotency key since a time, in any conversation.

        conversation: where the same input would have stored it. Two round trips on a sharded cluster.
        """
        query = {MessageField.SENDER: sender, MessageField.KEY: key, MessageField.ID: {"$gte": first_id_at(since_ms)}}
        row = await self._mongo.find_one(MESSAGES, query | await self.origins.query_of_key(conversation, sender, key))
        return message_from(row) if row else None

    async def find_recalled_contents(
        self, places: Sequence[tuple[ConversationId, int]]
    ) -> dict[MessageId, tuple[str, str | None]]:
        """Return the stored text and metadata (JSON) of recalled messages. For their senders only."""
        if not places:
            return {}
        names = (MessageField.TEXT, MessageField.METADATA)
        query = {"$or": [at_place(*place) for place in places], MessageField.RECALLED_AT: {"$exists": True}}
        rows = await self._mongo.find(MESSAGES, query, projection=dict.fromkeys(names, 1))
        return {
            MessageId(row[MessageField.ID]): (row.get(MessageField.TEXT, ""), row.get(MessageField.METADATA))
            for row in rows
        }

    async def list_between(
        self, conversation: ConversationId, ranges: Sequence[tuple[int, int]], limit: int, *, newest_first: bool
    ) -> list[Message]:
        """Return messages whose seq lies in one of the ranges (ends included), in order, at most limit of them."""
        ranges = [(first, last) for first, last in ranges if first <= last]
        if not ranges:
            return []
        # Each range names its buckets, so that the index leads from one to the next and skips what lies between.
        places = [between_places(conversation, first, last) for first, last in ranges]
        query: dict[str, Any] = places[0] if len(places) == 1 else {"$or": places}
        direction = -1 if newest_first else 1
        rows = await self._mongo.find(MESSAGES, query, sort=[(name, direction) for name, _ in PLACE], limit=limit)
        return [message_from(row) for row in rows]

    async def list_around(
        self,
        conversation: ConversationId,
        before: Sequence[tuple[int, int]],
        following: Sequence[tuple[int, int]],
        limits: tuple[int, int],
    ) -> tuple[list[Message], list[Message]]:
        """Return the last messages of some ranges and the first ones of later ranges, both oldest first.

        limits: The largest number of messages from each.
        """
        last, first = await self._mongo.gather(
            self.list_between(conversation, before, limits[0], newest_first=True),
            self.list_between(conversation, following, limits[1], newest_first=False),
        )
        return last[::-1], first

    async def list_from_others(
        self,
        user: UserId,
        waiting: Mapping[ConversationId, tuple[int, int]],
        before: MessageId | None,
        limit: int,
    ) -> list[Message]:
        """Return countable messages of other users, newest ids first, with ids below `before`.

        waiting: for each conversation a seq to start after, and the last seq.
        """
        places = [between_places(c, after + 1, last) for c, (after, last) in waiting.items()]
        query: dict[str, Any] = {MessageField.SENDER: {"$ne": user}, **_COUNTABLE}
        if before is not None:
            query[MessageField.ID] = {"$lt": int(before)}
        # Without the hint MongoDB might walk through the newest of all messages, and would compare plans each time.
        reads = [
            self._mongo.find(
                MESSAGES,
                query | {"$or": places[i : i + _MAX_RANGES]},
                sort=[(MessageField.ID, -1)],
                limit=limit,
                hint=PLACE,
            )
            for i in range(0, len(places), _MAX_RANGES)
        ]
        found = await self._mongo.gather(*reads) if reads else []
        rows = sorted((row for part in found for row in part), key=itemgetter(MessageField.ID), reverse=True)
        return [message_from(row) for row in rows[:limit]]

    async def find_place(self, conversation: ConversationId, seq: int) -> Place:
        """Return the place of the newest message up to and including a seq; zeros if there is none."""
        query = {
            MessageField.CONVERSATION: conversation,
            MessageField.BUCKET: {"$lte": bucket_of(seq)},
            MessageField.SEQ: {"$lte": seq},
        }
        row = await self._mongo.find_one(MESSAGES, query, sort=[(name, -1) for name, _ in PLACE])
        return Place(row[MessageField.SEQ], row[MessageField.N]) if row else Place(0, 0)

    async def find_first_since(self, conversation: ConversationId, since_ms: int, newest_seq: int) -> int:
        """Return the seq of the first message that was sent at or after a time; newest_seq + 1 if there is none.

        One round trip for each halving of the conversation.
        """
        low, high = 1, newest_seq + 1
        first_id = first_id_at(since_ms)
        while low < high:
            middle = (low + high) // 2
            query = between_places(conversation, middle, newest_seq)
            row = await self._mongo.find_one(MESSAGES, query, sort=[(name, 1) for name, _ in PLACE])
            if row is None or row[MessageField.ID] >= first_id:
                high = middle
            else:
                low = row[MessageField.SEQ] + 1
        return low

    async def find_places(self, places: Sequence[tuple[ConversationId, int]]) -> dict[ConversationId, Place]:
        """Return what `find_place` returns for a seq of each conversation.

        One round trip if each seq has a message, and one for all that have none.
        """
        if not places:
            return {}
        projection = {MessageField.CONVERSATION: 1, MessageField.SEQ: 1, MessageField.N: 1}
        rows = await self._mongo.find(MESSAGES, {"$or": [at_place(c, s) for c, s in places]}, projection=projection)
        found = {
            ConversationId(row[MessageField.CONVERSATION]): Place(row[MessageField.SEQ], row[MessageField.N])
            for row in rows
        }
        missing = [(c, s) for c, s in places if c not in found]
        if missing:
            earlier = await self._mongo.gather(*(self.find_place(c, s) for c, s in missing))
            found |= {c: place for (c, _), place in zip(missing, earlier, strict=True)}
        return found

    async def list_senders(self, conversation: ConversationId, after: int, last: int) -> set[UserId]:
        """Return the senders of countable messages after a seq, up to and including the last."""
        query = between_places(conversation, after + 1, last) | _COUNTABLE
        rows = await self._mongo.aggregate(
            MESSAGES, [{"$match": query}, {"$group": {"_id": f"${MessageField.SENDER}"}}]
        )
        return {UserId(row["_id"]) for row in rows}
