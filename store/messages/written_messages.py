"""The messages that one user wrote in a conversation, for work in the background.

No index has the sender of messages. So the conversation is read in the order of seq, in bounded steps, with pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from store.base.ids import ConversationId, UserId
from store.base.snowflakes import first_id_at
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.messages.message_store import MessageStore
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, between_places
from store.mongo.index_fields import PLACE
from store.mongo.paced_reads import PAUSE_RATIO

SEQS_PER_STEP = 2_000
"""Seqs that one query goes through. Messages of others are read too."""

_CLOCK_MARGIN_MS = 60_000
"""More than the difference of servers' clocks, and than the time from a message's id to its place."""

_IN_ORDER = [(name, 1) for name, _ in PLACE]
_LAST_FIRST = [(name, -1) for name, _ in PLACE]


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """Messages of one user, in the order of seq.

    Attributes:
        messages: The messages, at most SEQS_PER_STEP; possibly none.
        last_seq: All messages of the user up to this seq were returned. A scan that is continued begins after it.
    """

    messages: list[Message]
    last_seq: int


class WrittenMessages:
    """Finds the messages of a user in one conversation. On a sharded cluster each read goes to one shard at a time."""

    def __init__(self, mongo: Mongo, messages: MessageStore) -> None:
        self._mongo = mongo
        self._messages = messages

    async def list_batches(
        self,
        conversation: ConversationId,
        users: Collection[UserId],
        after_seq: int = 0,
        last_seq: int | None = None,
    ) -> AsyncIterator[WrittenBatch]:
        """Yield the messages that users sent, recalled and SYSTEM ones included, in the order of seq.

        After each read it pauses four times as long as the read took. Messages that take a place after the first step
        may be left out.

        Args:
            conversation: The conversation. Its threads are conversations of their own.
            users: The senders; usually one.
            after_seq: Where the first batch begins: after this seq.
            last_seq: The last seq that is read; None: the newest stored one.

        Raises Unreachable.
        """
        loop = asyncio.get_running_loop()
        last = last_seq if last_seq is not None else await self.find_newest_seq(conversation)
        position = after_seq
        while position < last:
            began = loop.time()
            end = min(position + SEQS_PER_STEP, last)
            query = between_places(conversation, position + 1, end) | {MessageField.SENDER: {"$in": sorted(users)}}
            rows = await self._mongo.find(MESSAGES, query, sort=_IN_ORDER, hint=PLACE)
            if not rows and end < last:
                # There may be a long gap: messages that were removed.
                end = max(end, await self._find_first_after(conversation, end, last) - 1)
            took = loop.time() - began
            yield WrittenBatch([message_from(row) for row in rows], end)
            position = end
            if position < last:
                await asyncio.sleep(PAUSE_RATIO * took)

    async def list_since(
        self, conversation: ConversationId, user: UserId, since_ms: int, after_seq: int = 0
    ) -> AsyncIterator[WrittenBatch]:
        """Yield the messages that a user sent at or after a time (ms since the epoch), as `list_batches` does.

        after_seq: Where to continue. One round trip for each halving of the conversation is added.
        """
        row, margin_ms = await self._find_newest(conversation), since_ms - _CLOCK_MARGIN_MS
        if row is None or row[MessageField.ID] < first_id_at(margin_ms):
            return
        newest = int(row[MessageField.SEQ])
        first = await self._messages.find_first_since(conversation, margin_ms, newest)
        async for batch in self.list_batches(conversation, (user,), max(after_seq, first - 1), newest):
            sent = [message for message in batch.messages if message.created_at_ms >= since_ms]
            yield WrittenBatch(sent, batch.last_seq)

    async def find_newest_seq(self, conversation: ConversationId) -> int:
        """Return the seq of the newest stored message; 0: there is none. One round trip."""
        row = await self._find_newest(conversation)
        return int(row[MessageField.SEQ]) if row is not None else 0

    async def _find_newest(self, conversation: ConversationId) -> Document | None:
        query = {MessageField.CONVERSATION: conversation}
        rows = await self._mongo.find(
            MESSAGES, query, sort=_LAST_FIRST, limit=1, projection={MessageField.SEQ: 1}, hint=PLACE
        )
        return rows[0] if rows else None

    async def _find_first_after(self, conversation: ConversationId, seq: int, last: int) -> int:
        """Return the seq of the first message after a seq; last + 1 if there is none up to `last`."""
        query = between_places(conversation, seq + 1, last)
        rows = await self._mongo.find(
            MESSAGES, query, sort=_IN_ORDER, limit=1, projection={MessageField.SEQ: 1}, hint=PLACE
        )
        return int(rows[0][MessageField.SEQ]) if rows else last + 1
