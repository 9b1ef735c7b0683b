"""Receipts: the position up to which each recipient has received and read, and the times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from store.base.ids import ConversationId, UserId, parse_private
from store.conversations.conversation_fields import NO_END, ConversationField, MemberField
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    RECEIPTS,
    marks_between,
    member_row_id,
    members_of,
    receipt_row_end,
    seq_of_receipt,
)
from store.mongo.writes import Write
from store.receipts.receipt_marks import (
    MARKED_AT,
    ReceiptKind,
    ReceiptMark,
    mark_row,
    peer_updates,
    progress_updates,
)

_LAST_SEQ = 0xFFFFFFFF
_PROGRESS = {MemberField.INTERVALS: 1, MemberField.READ: 1, MemberField.DELIVERED: 1}
_PEER_PROGRESS = dict.fromkeys((*ConversationField.READ, *ConversationField.DELIVERED), 1)


@dataclass(frozen=True, slots=True)
class Recipient:
    """A user who is or was in a conversation, and how far they have received and read it.

    `intervals`: first and last seq of each membership, ends included; None: not ended.
    """

    user: UserId
    intervals: tuple[tuple[int, int | None], ...]
    delivered: int
    read: int

    def status_of(self, seq: int) -> ReceiptKind | None:
        """Return the status of the message at a seq for this recipient; None: not delivered yet."""
        if self.read >= seq:
            return ReceiptKind.READ
        return ReceiptKind.DELIVERED if self.delivered >= seq else None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The status of one message for one recipient. Times in ms."""

    user: UserId
    status: ReceiptKind | None
    delivered_at_ms: int | None
    read_at_ms: int | None


class ReceiptStore:
    """Marks in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    def prepare_writes(self, marks: Sequence[ReceiptMark], at_ms: int) -> list[Write]:
        """Return the writes that store marks and their users' progress, to be sent with other writes.

        May be repeated: a mark that exists keeps its time.
        """
        writes = (
            Write.inserts(RECEIPTS, [mark_row(mark, at_ms) for mark in marks]),
            Write.updates(MEMBERS, progress_updates(marks)),
            Write.updates(CONVERSATIONS, peer_updates(marks, at_ms)),
        )
        return [write for write in writes if write.statements]

    async def save_marks(self, marks: Sequence[ReceiptMark], at_ms: int) -> None:
        """Store marks and their users' progress: one round trip."""
        await self._mongo.write(self.prepare_writes(marks, at_ms))

    async def find_last_read(self, conversation: ConversationId, user: UserId, before: int) -> int:
        """Return the seq of a user's last READ mark before a seq; 0 if there is none."""
        query = marks_between(conversation, user, ReceiptKind.READ.value, 0, before - 1)
        row = await self._mongo.find_one(RECEIPTS, query, sort=[("_id", -1)])
        return seq_of_receipt(row["_id"]) if row else 0

    async def list_recipients(self, conversations: Sequence[ConversationId]) -> dict[ConversationId, list[Recipient]]:
        """Return all current and former members of conversations: one round trip."""
        groups = [c for c in dict.fromkeys(conversations) if parse_private(c) is None]
        private = [c for c in conversations if parse_private(c) is not None]
        reads = [self._mongo.find(MEMBERS, members_of(c), projection=_PROGRESS) for c in groups]
        if private:
            reads.append(self._mongo.find(CONVERSATIONS, {"_id": {"$in": private}}, projection=_PEER_PROGRESS))
        answers = await self._mongo.gather(*reads)
        found = {c: [_recipient_from(c, row) for row in rows] for c, rows in zip(groups, answers, strict=False)}
        return found | {head["_id"]: _peers_from(head) for heads in answers[len(groups) :] for head in heads}

    async def list_receipts(
        self,
        conversation: ConversationId,
        seq: int,
        sender: UserId,
        *,
        status: str | None,
        after: str,
        limit: int,
    ) -> list[Receipt]:
        """Return a message's receipts, ordered by the recipient's user id: one round trip.

        status: "READ", "DELIVERED", "SENT" (neither), or None: any. after: a user id to continue after, or "".
        """
        if parse_private(conversation) is not None:
            found = await self._list_peer_receipts(conversation, seq, sender)
            kept = [r for r in found if r.user > after and status in (None, r.status.name if r.status else "SENT")]
            return kept[:limit]
        pipeline = receipts_pipeline(conversation, seq, sender, status=status, after=after, limit=limit)
        rows = await self._mongo.aggregate(MEMBERS, pipeline)
        delivered, read = ReceiptKind.DELIVERED.value, ReceiptKind.READ.value
        return [_receipt_from(_recipient_from(conversation, row), seq, row[delivered], row[read]) for row in rows]

    async def _list_peer_receipts(self, conversation: ConversationId, seq: int, sender: UserId) -> list[Receipt]:
        """Return the one receipt of a private message."""
        people = parse_private(conversation)
        assert people is not None
        peer = people[1] if people[0] == sender else people[0]
        first_marks = [
            self._mongo.find(
                RECEIPTS, marks_between(conversation, peer, kind.value, seq, _LAST_SEQ), sort=[("_id", 1)], limit=1
            )
            for kind in (ReceiptKind.DELIVERED, ReceiptKind.READ)
        ]
        heads, delivered, read = await self._mongo.gather(
            self._mongo.find(CONVERSATIONS, {"_id": conversation}, projection=_PEER_PROGRESS), *first_marks
        )
        recipients = [person for head in heads for person in _peers_from(head) if person.user == peer]
        return [_receipt_from(recipient, seq, delivered, read) for recipient in recipients]


def receipts_pipeline(
    conversation: ConversationId, seq: int, sender: UserId, *, status: str | None, after: str, limit: int
) -> list[dict[str, Any]]:
    """Return the aggregation over a group's members with their first marks at or past a seq.

    Each row has the marks under their kind's value (D and R): one or none.
    """
    start = member_row_id(conversation, UserId(after)) if after else f"{conversation} "
    ids = {"_id": {"$gt": start, "$lt": f"{conversation}!", "$ne": member_row_id(conversation, sender)}}
    not_ended = {"$or": [{"1": NO_END}, {"1": {"$gte": seq}}]}
    member_then = {MemberField.INTERVALS: {"$elemMatch": {"0": {"$lte": seq}, **not_ended}}}
    return [
        {"$match": ids | member_then | _status_query(status, seq)},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
        {"$project": _PROGRESS},
        _lookup_first_mark(ReceiptKind.DELIVERED.value, seq),
        _lookup_first_mark(ReceiptKind.READ.value, seq),
    ]


def _status_query(status: str | None, seq: int) -> Document:
    reached, missing = {"$gte": seq}, {"$not": {"$gte": seq}}
    queries: dict[str | None, Document] = {
        None: {},
        "READ": {MemberField.READ: reached},
        "DELIVERED": {MemberField.DELIVERED: reached, MemberField.READ: missing},
        "SENT": {MemberField.DELIVERED: missing},
    }
    return queries[status]


def _lookup_first_mark(kind: str, seq: int) -> dict[str, Any]:
    """Join a membership with its user's first mark of a kind at or past a seq. Their `_id`s begin alike."""
    first, last = (receipt_row_end(kind, s) for s in (seq, _LAST_SEQ))
    return {
        "$lookup": {
            "from": RECEIPTS,
            "let": {"first": {"$concat": ["$_id", first]}, "last": {"$concat": ["$_id", last]}},
            "pipeline": [
                {"$match": {"$expr": {"$and": [{"$gte": ["$_id", "$$first"]}, {"$lte": ["$_id", "$$last"]}]}}},
                {"$sort": {"_id": 1}},
                {"$limit": 1},
            ],
            "as": kind,
        }
    }


def _peers_from(head: Document) -> list[Recipient]:
    """Return the two people of a private conversation, from its document."""
    people = parse_private(head["_id"])
    assert people is not None
    recipients = []
    for side, user in enumerate(people[:2]):
        read = head.get(ConversationField.READ[side], 0)
        delivered = max(head.get(ConversationField.DELIVERED[side], 0), read)
        recipients.append(Recipient(user, ((1, None),), delivered, read))
    return recipients


def _recipient_from(conversation: ConversationId, row: Document) -> Recipient:
    user = UserId(row["_id"][len(conversation) + 1 :])
    intervals = tuple((first, None if last == NO_END else last) for first, last in row[MemberField.INTERVALS])
    return Recipient(user, intervals, row.get(MemberField.DELIVERED, 0), row.get(MemberField.READ, 0))


def _receipt_from(recipient: Recipient, seq: int, delivered: list[Document], read: list[Document]) -> Receipt:
    read_at = read[0][MARKED_AT] if read else None
    times = [mark[MARKED_AT] for mark in (*delivered, *read)]
    return Receipt(recipient.user, recipient.status_of(seq), min(times, default=None), read_at)
