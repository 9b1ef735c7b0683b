"""Receipts that are held back while their user is INVISIBLE (ADR 81).

`held_receipts` {_id: "<user> <conversation>"}: a delivered position that senders do not know yet. Only the user's own
session has it; no mark, member or head does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from store.base.ids import ConversationId, UserId
from store.mongo.client import Document, Mongo
from store.mongo.collections import HELD_RECEIPTS, held_receipt_row_id, held_receipts_of, parse_held_receipt_row_id
from store.mongo.index_fields import BY_HELD_UNTIL, HELD_UNTIL
from store.mongo.writes import Update, Write

_SEQ = "s"
_AFTER = "f"


@dataclass(frozen=True, slots=True)
class HeldReceipt:
    """A user has received everything in a conversation up to `seq`. Senders were notified up to `after`."""

    user: UserId
    conversation: ConversationId
    seq: int
    after: int


class HeldReceiptStore:
    """Held receipts in MongoDB. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    def prepare_writes(self, receipts: Iterable[HeldReceipt], until_ms: int) -> list[Write]:
        """Return the writes that hold receipts, to be sent with other writes. May be repeated.

        until_ms: When any server checks whether the user is visible again.
        """
        updates = [
            Update(
                {"_id": held_receipt_row_id(each.user, each.conversation)},
                {"$max": {_SEQ: each.seq}, "$min": {_AFTER: each.after, HELD_UNTIL: until_ms}},
                upsert=True,
            )
            for each in receipts
        ]
        return [Write.updates(HELD_RECEIPTS, updates)] if updates else []

    async def hold(self, receipts: Iterable[HeldReceipt], until_ms: int) -> None:
        """Hold receipts: one round trip."""
        await self._mongo.write(self.prepare_writes(receipts, until_ms))

    async def list_of(self, user: UserId, limit: int) -> list[HeldReceipt]:
        """Return held receipts of a user: one round trip. limit: 0 for all."""
        return [_from_row(row) for row in await self._mongo.find(HELD_RECEIPTS, held_receipts_of(user), limit=limit)]

    async def list_due_users(self, now_ms: int, limit: int) -> list[UserId]:
        """Return users who may be visible again: those of a number of receipts, the longest due first."""
        rows = await self._mongo.find(HELD_RECEIPTS, {HELD_UNTIL: {"$lte": now_ms}}, sort=BY_HELD_UNTIL, limit=limit)
        return list(dict.fromkeys(_from_row(row).user for row in rows))

    async def take_due(self, user: UserId, now_ms: int, until_ms: int) -> bool:
        """Postpone the next check of receipts that are due. False: none is, or another server has taken them.

        Two round trips.
        """
        due = {HELD_UNTIL: {"$lte": now_ms}}
        rows = await self._mongo.find(HELD_RECEIPTS, held_receipts_of(user) | due, projection={"_id": 1})
        if not rows:
            return False
        updates = [Update({"_id": row["_id"]} | due, {"$set": {HELD_UNTIL: until_ms}}) for row in rows]
        (outcome,) = await self._mongo.write([Write.updates(HELD_RECEIPTS, updates)])
        return outcome.touched > 0

    async def forget(self, receipts: Sequence[HeldReceipt]) -> None:
        """Delete receipts that senders have. Those with a later position since stay. One round trip."""
        queries = [{"_id": held_receipt_row_id(each.user, each.conversation), _SEQ: each.seq} for each in receipts]
        await self._mongo.delete_each(HELD_RECEIPTS, queries)


def _from_row(row: Document) -> HeldReceipt:
    user, conversation = parse_held_receipt_row_id(row["_id"])
    return HeldReceipt(user, conversation, row[_SEQ], row[_AFTER])
