"""Receipts as marks: one row an acknowledgement, however many messages it covers and however large the group.

`receipts` {_id: "<conversation> <user> <R or D><seq>", at (ms)}. The status and time of a message for a recipient is the first
mark at or past its seq: monotonic by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pymongo import UpdateOne

from store.ids import ConversationId, UserId, parse_private
from store.mongo import Mongo
from store.rows import CONVERSATIONS, RECEIPTS, receipt_row_id


class ReceiptKind(StrEnum):
    """What was acknowledged. Having read includes having received."""

    DELIVERED = "D"
    READ = "R"


@dataclass(frozen=True, slots=True)
class Mark:
    """A user acknowledged everything in a conversation up to seq."""

    conversation: ConversationId
    user: UserId
    kind: ReceiptKind
    seq: int


class ReceiptStore:
    """Marks in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def insert(self, marks: Sequence[Mark], at_ms: int) -> None:
        """Keeps marks. One that is there keeps its time."""
        operations = [
            UpdateOne(
                {"_id": receipt_row_id(mark.conversation, mark.user, mark.kind.value, mark.seq)},
                {"$setOnInsert": {"at": at_ms}},
                upsert=True,
            )
            for mark in marks
        ]
        await self._mongo.bulk_write(RECEIPTS, operations)

    async def show_peers(self, marks: Sequence[Mark], at_ms: int) -> None:
        """Lets the other person of private conversations see that READ marks were set, which moves their session too."""
        operations = []
        for mark in marks:
            people = parse_private(mark.conversation)
            if people is not None:
                side = 0 if people[0] == mark.user else 1
                seen = {f"r{side}": mark.seq, f"d{side}": mark.seq, "at": at_ms}
                operations.append(UpdateOne({"_id": mark.conversation}, {"$max": seen}))
        if operations:
            await self._mongo.bulk_write(CONVERSATIONS, operations)
