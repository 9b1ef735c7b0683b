"""Finds the floors of conversations: the last messages that are older than a time (ADR 99)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from store.base.ids import ConversationId
from store.base.snowflakes import created_at_ms, first_id_at
from store.conversations.conversation_fields import ConversationField
from store.messages.message_fields import MessageField
from store.messages.message_store import MessageStore, Place
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, at_place, between_places

_CONVERSATIONS_AT_ONCE = 250

_OUT_OF_ORDER = 64
"""Messages after a floor that are checked one by one: some may be older than the time, because several servers make ids
before places are taken."""

_NEAR_MS = 60_000
"""Most time by which the first younger message may be later than the time, for older ones after it to be looked for.
More than the time between an id and its place. A server whose clock was wrong must not take young messages with it.
"""

_FIELDS = dict.fromkeys((MessageField.CONVERSATION, MessageField.SEQ, MessageField.N, MessageField.ID), 1)


class Floor(NamedTuple):
    """A floor: messages up to it are expired.

    Attributes:
        place: seq and n of the last expired message.
        oldest_ms: When the first message after it was sent; None: there is none.
        is_raised: It is higher than the floor so far.
    """

    place: Place
    oldest_ms: int | None
    is_raised: bool


@dataclass(slots=True)
class _Search:
    """A binary search in one conversation. Everything up to `low` is expired, nothing from `high` on is."""

    place: Place
    low: int
    high: int
    oldest_ms: int | None = None

    @property
    def middle(self) -> int:
        return (self.low + self.high) // 2

    @property
    def is_done(self) -> bool:
        return self.high - self.low <= 1

    def note(self, middle: int, row: Document | None, first_id: int) -> None:
        """Continue with the newest message up to the middle; None: there is none above `low`."""
        if row is None:
            self.low = middle
        elif row[MessageField.ID] < first_id:
            self.place, self.low = Place(row[MessageField.SEQ], row[MessageField.N]), middle
        else:
            self.high, self.oldest_ms = row[MessageField.SEQ], created_at_ms(row[MessageField.ID])


class FloorFinder:
    """Searches in the index of places. Ids of messages have the time at which they were made."""

    def __init__(self, mongo: Mongo, messages: MessageStore) -> None:
        self._mongo = mongo
        self._messages = messages

    async def find_many(self, conversations: Sequence[ConversationId], before_ms: int) -> dict[ConversationId, Floor]:
        """Return the floor of each conversation that exists, if messages that were sent before a time expire.

        A floor is never below the present one. One round trip for each halving of the longest conversation.
        """
        found: dict[ConversationId, Floor] = {}
        for start in range(0, len(conversations), _CONVERSATIONS_AT_ONCE):
            found |= await self._find_some(
                conversations[start : start + _CONVERSATIONS_AT_ONCE], first_id_at(before_ms)
            )
        return found

    async def _find_some(self, conversations: Sequence[ConversationId], first_id: int) -> dict[ConversationId, Floor]:
        fields = (ConversationField.SEQ, ConversationField.FLOOR_SEQ, ConversationField.FLOOR_N)
        heads, newest = await self._mongo.gather(
            self._mongo.find(CONVERSATIONS, {"_id": {"$in": list(conversations)}}, projection=dict.fromkeys(fields, 1)),
            self._mongo.gather(*(self._messages.find_place(name, 1 << 53) for name in conversations)),
        )
        stored = {name: place.seq for name, place in zip(conversations, newest, strict=True)}
        before: dict[ConversationId, Place] = {}
        searches: dict[ConversationId, _Search] = {}
        for row in heads:
            name = ConversationId(row["_id"])
            place = Place(row.get(ConversationField.FLOOR_SEQ, 0), row.get(ConversationField.FLOOR_N, 0))
            before[name] = place
            searches[name] = _Search(place, place.seq, max(place.seq, stored[name]) + 1)
        while waiting := {name: search.middle for name, search in searches.items() if not search.is_done}:
            rows = await self._read(waiting, {name: searches[name].low for name in waiting})
            for name, middle in waiting.items():
                searches[name].note(middle, rows.get(name), first_id)
        await self._skip_out_of_order(searches, first_id)
        return {
            name: Floor(search.place, search.oldest_ms, search.place.seq > before[name].seq)
            for name, search in searches.items()
        }

    async def _read(
        self, middles: Mapping[ConversationId, int], lows: Mapping[ConversationId, int]
    ) -> dict[ConversationId, Document]:
        """Return of each conversation the newest message up to a seq and after another one, if there is one."""
        query = {"$or": [at_place(name, seq) for name, seq in middles.items()]}
        rows = await self._mongo.find(MESSAGES, query, projection=_FIELDS)
        found = {ConversationId(row[MessageField.CONVERSATION]): row for row in rows}
        # A seq without a message was given to a message that was never stored.
        missing = [name for name in middles if name not in found]
        earlier = await self._mongo.gather(
            *(self._read_before(name, lows[name] + 1, middles[name]) for name in missing)
        )
        return found | {name: rows[0] for name, rows in zip(missing, earlier, strict=True) if rows}

    async def _read_before(self, name: ConversationId, first: int, last: int) -> list[Document]:
        newest_first = [(MessageField.BUCKET, -1), (MessageField.SEQ, -1)]
        return await self._mongo.find(
            MESSAGES, between_places(name, first, last), projection=_FIELDS, sort=newest_first, limit=1
        )

    async def _skip_out_of_order(self, searches: Mapping[ConversationId, _Search], first_id: int) -> None:
        """Raise floors to older messages that are a few places above."""
        ranges = [
            between_places(name, search.high, search.high + _OUT_OF_ORDER) | {MessageField.ID: {"$lt": first_id}}
            for name, search in searches.items()
            if search.oldest_ms is not None and search.oldest_ms < created_at_ms(first_id) + _NEAR_MS
        ]
        rows = await self._mongo.find(MESSAGES, {"$or": ranges}, projection=_FIELDS) if ranges else []
        for row in rows:
            search = searches[ConversationId(row[MessageField.CONVERSATION])]
            if row[MessageField.SEQ] > search.place.seq:
                search.place = Place(row[MessageField.SEQ], row[MessageField.N])
