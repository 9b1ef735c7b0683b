"""Reads of all messages of a conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from store.base.ids import ConversationId
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES
from store.mongo.index_fields import PLACE

ROWS_AT_ONCE = 2_000


async def message_pages(
    mongo: Mongo,
    conversation: ConversationId,
    fields: Iterable[str],
    condition: Mapping[str, Any] | None = None,
    session: Any = None,
) -> AsyncIterator[list[Document]]:
    """Yield the messages that meet a condition, in the order of their places, in pages. One round trip for each.

    fields: Stored names of the fields to read. The place is read too.
    """
    bucket, seq = 0, 0
    projection = {**dict.fromkeys(fields, 1), MessageField.BUCKET: 1, MessageField.SEQ: 1}
    while True:
        query: Document = {
            MessageField.CONVERSATION: conversation,
            "$or": [
                {MessageField.BUCKET: bucket, MessageField.SEQ: {"$gt": seq}},
                {MessageField.BUCKET: {"$gt": bucket}},
            ],
            **(condition or {}),
        }
        rows = await mongo.find(MESSAGES, query, projection=projection, sort=PLACE, limit=ROWS_AT_ONCE, session=session)
        if rows:
            yield rows
        if len(rows) < ROWS_AT_ONCE:
            return
        bucket, seq = rows[-1][MessageField.BUCKET], rows[-1][MessageField.SEQ]
