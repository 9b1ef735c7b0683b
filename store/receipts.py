"""Receipts as marks: one row an acknowledgement, however many messages it covers and however large the group.

`receipts` {_id: "<conversation> <user> <R or D><seq>", at (ms)}. The status and time of a message for a recipient is the first
mark at or past its seq: monotonic by construction.
"""

from __future__ import annotations

from enum import StrEnum

from store.ids import ConversationId, UserId
from store.mongo import Mongo
from store.rows import RECEIPTS, receipt_row_id


class ReceiptKind(StrEnum):
    """What was acknowledged. Having read includes having received."""

    DELIVERED = "D"
    READ = "R"


class ReceiptStore:
    """Marks in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def insert(self, conversation: ConversationId, user: UserId, kind: ReceiptKind, seq: int, at_ms: int) -> None:
        """Keeps a mark. One that is there keeps its time."""
        row = receipt_row_id(conversation, user, kind.value, seq)
        await self._mongo.update_one(RECEIPTS, {"_id": row}, {"$setOnInsert": {"at": at_ms}}, upsert=True)
