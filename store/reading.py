"""What reading a conversation writes."""

from __future__ import annotations

from typing import Any

from store.errors import Fenced
from store.ids import ConversationId, UserId, parse_private
from store.mongo import Mongo
from store.receipts import ReceiptKind, ReceiptStore
from store.rows import CONVERSATIONS, SESSIONS, session_row_id


async def update_read(
    mongo: Mongo,
    receipts: ReceiptStore,
    user: UserId,
    conversation: ConversationId,
    *,
    seq: int,
    n: int,
    advanced: bool,
    fence: int,
    now_ms: int,
) -> None:
    """The user has read everything up to seq, n countable messages: one waited round trip.

    Marks only grow. A mark for the senders is kept where the read position advanced. Raises Fenced where a later holder
    of the user's lock wrote before.
    """
    row = {
        "_id": session_row_id(user, conversation),
        "$or": [{"f": {"$exists": False}}, {"f": {"$lte": fence}}],
    }
    change: dict[str, Any] = {
        "$max": {"r": seq, "rn": n, "d": seq, "a": now_ms},
        "$set": {"f": fence},
        "$unset": {"us": ""},
    }
    writes: list[Any] = [mongo.update_one(SESSIONS, row, change)]
    people = parse_private(conversation)
    if advanced:
        writes.append(receipts.insert(conversation, user, ReceiptKind.READ, seq, now_ms))
        if people is not None:
            side = 0 if people[0] == user else 1
            marks = {"$max": {f"r{side}": seq, f"d{side}": seq, "at": now_ms}}
            writes.append(mongo.update_one(CONVERSATIONS, {"_id": conversation}, marks))
    matched, *_ = await mongo.together(*writes)
    if not matched:
        raise Fenced(f"{user} was changed by a later holder of the lock")
