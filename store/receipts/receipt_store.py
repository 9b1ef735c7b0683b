"""Receipts as marks: one row an acknowledgement, however many messages it covers and however large the group.

`receipts` {_id: "<conversation> <user> <R or D><seq>", at (ms)}. The time of a message for a recipient is that of the first
mark at or past its seq: monotonic by construction. How far everybody is by now stands beside, so that a whole group is
counted without looking at marks: ar (read) and ad (received) in `members`, r0 r1 d0 d1 in `conversations` of private ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId, parse_private
from store.mongo.client import Document, Mongo, Update
from store.mongo.collections import (
    CONVERSATIONS,
    MEMBERS,
    RECEIPTS,
    marks_between,
    member_row_id,
    members_of,
    receipt_row_end,
    receipt_row_id,
    seq_of_receipt,
)

_NO_END = -1
_LAST_SEQ = 0xFFFFFFFF


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


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody who is or was in a conversation, from when to when (seqs, ends included; None: still), and how far they have
    received and read it."""

    user: UserId
    intervals: tuple[tuple[int, int | None], ...]
    delivered: int
    read: int

    def status_of(self, seq: int) -> ReceiptKind | None:
        """What became of a message for them; None: nothing yet."""
        if self.read >= seq:
            return ReceiptKind.READ
        return ReceiptKind.DELIVERED if self.delivered >= seq else None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one message for one recipient, and when (ms)."""

    user: UserId
    status: ReceiptKind | None
    delivered_at_ms: int | None
    read_at_ms: int | None


class ReceiptStore:
    """Marks in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    def writes(self, marks: Sequence[Mark], at_ms: int) -> list[Awaitable[Any]]:
        """What keeps marks, and how far they bring those who made them: to go to MongoDB together with what else belongs to
        it. May be repeated; a mark that is there keeps its time."""
        due = (
            (RECEIPTS, _mark_updates(marks, at_ms)),
            (MEMBERS, [UpdateOne(query, change) for query, change, _ in progress_updates(marks)]),
            (CONVERSATIONS, _peer_updates(marks, at_ms)),
        )
        return [self._mongo.bulk_write(collection, updates) for collection, updates in due if updates]

    async def keep(self, marks: Sequence[Mark], at_ms: int) -> None:
        """Like writes, by themselves: one round trip."""
        try:
            await self._mongo.gather(*self.writes(marks, at_ms))
        except BulkWriteError as error:
            # Two upserts of one mark met. Repeating is safe.
            raise Unreachable("marks of one reader collided") from error

    async def find_last_read(self, conversation: ConversationId, user: UserId, before: int) -> int:
        """How far a user's last reading went that ended before a seq; 0 where there was none."""
        query = marks_between(conversation, user, ReceiptKind.READ.value, 0, before - 1)
        row = await self._mongo.find_one(RECEIPTS, query, sort=[("_id", -1)])
        return seq_of_receipt(row["_id"]) if row else 0

    async def list_recipients(self, conversations: Sequence[ConversationId]) -> dict[ConversationId, list[Recipient]]:
        """All who are or were in conversations: one round trip."""
        groups = [c for c in dict.fromkeys(conversations) if parse_private(c) is None]
        private = {"_id": {"$in": [c for c in conversations if parse_private(c) is not None]}}
        reads = [self._mongo.find(MEMBERS, members_of(c), projection={"i": 1, "ar": 1, "ad": 1}) for c in groups]
        if private["_id"]["$in"]:
            reads.append(self._mongo.find(CONVERSATIONS, private, projection=_PEERS))
        answers = await self._mongo.gather(*reads)
        found = {c: [_recipient_from(c, row) for row in rows] for c, rows in zip(groups, answers, strict=False)}
        return found | {head["_id"]: _people_of(head) for heads in answers[len(groups) :] for head in heads}

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
        """What became of a message for its recipients, ordered by user id, after one of them: one round trip.

        status: "READ", "DELIVERED", "SENT" (neither), or None: any.
        """
        if parse_private(conversation) is not None:
            found = await self._list_peer(conversation, seq, sender)
            kept = [r for r in found if r.user > after and status in (None, r.status.name if r.status else "SENT")]
            return kept[:limit]
        pipeline = receipts_pipeline(conversation, seq, sender, status=status, after=after, limit=limit)
        rows = await self._mongo.aggregate(MEMBERS, pipeline)
        return [_receipt_from(_recipient_from(conversation, row), seq, row["D"], row["R"]) for row in rows]

    async def _list_peer(self, conversation: ConversationId, seq: int, sender: UserId) -> list[Receipt]:
        people = parse_private(conversation)
        assert people is not None
        peer = people[1] if people[0] == sender else people[0]
        first_mark = [
            self._mongo.find(
                RECEIPTS, marks_between(conversation, peer, kind, seq, _LAST_SEQ), sort=[("_id", 1)], limit=1
            )
            for kind in ("D", "R")
        ]
        heads, delivered, read = await self._mongo.gather(
            self._mongo.find(CONVERSATIONS, {"_id": conversation}, projection=_PEERS), *first_mark
        )
        recipients = [person for head in heads for person in _people_of(head) if person.user == peer]
        return [_receipt_from(recipient, seq, delivered, read) for recipient in recipients]


def mark_row(mark: Mark, at_ms: int) -> Document:
    """A mark as it is inserted. One that is there keeps its time."""
    return {"_id": receipt_row_id(mark.conversation, mark.user, mark.kind.value, mark.seq), "at": at_ms}


def _mark_updates(marks: Iterable[Mark], at_ms: int) -> list[UpdateOne]:
    return [
        UpdateOne(
            {"_id": receipt_row_id(mark.conversation, mark.user, mark.kind.value, mark.seq)},
            {"$setOnInsert": {"at": at_ms}},
            upsert=True,
        )
        for mark in marks
    ]


def progress_updates(marks: Iterable[Mark]) -> list[Update]:
    """How far marks bring members of groups."""
    updates = []
    for mark in marks:
        if parse_private(mark.conversation) is None:
            far = {"ad": mark.seq} if mark.kind is ReceiptKind.DELIVERED else {"ad": mark.seq, "ar": mark.seq}
            updates.append(Update({"_id": member_row_id(mark.conversation, mark.user)}, {"$max": far}))
    return updates


def _peer_updates(marks: Iterable[Mark], at_ms: int) -> list[UpdateOne]:
    """How far marks bring the people of private conversations, which moves the other's session too."""
    updates = []
    for mark in marks:
        people = parse_private(mark.conversation)
        if people is not None:
            side = 0 if people[0] == mark.user else 1
            seen = {f"d{side}": mark.seq, "at": at_ms}
            if mark.kind is ReceiptKind.READ:
                seen[f"r{side}"] = mark.seq
            updates.append(UpdateOne({"_id": mark.conversation}, {"$max": seen}))
    return updates


def receipts_pipeline(
    conversation: ConversationId, seq: int, sender: UserId, *, status: str | None, after: str, limit: int
) -> list[dict[str, Any]]:
    """The recipients of a group's message, each with the first marks at or past it (D and R, one or none)."""
    start = member_row_id(conversation, UserId(after)) if after else f"{conversation} "
    then = {"i": {"$elemMatch": {"0": {"$lte": seq}, "$or": [{"1": _NO_END}, {"1": {"$gte": seq}}]}}}
    match = {"_id": {"$gt": start, "$lt": f"{conversation}!", "$ne": member_row_id(conversation, sender)}}
    reached, missing = {"$gte": seq}, {"$not": {"$gte": seq}}
    far: dict[str | None, Document] = {
        None: {}, "READ": {"ar": reached}, "DELIVERED": {"ad": reached, "ar": missing}, "SENT": {"ad": missing},
    }  # fmt: skip
    return [
        {"$match": match | then | far[status]},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
        {"$project": {"i": 1, "ar": 1, "ad": 1}},
        _first_mark("D", seq),
        _first_mark("R", seq),
    ]


def _first_mark(kind: str, seq: int) -> dict[str, Any]:
    """Joins a membership with its user's first mark of a kind at or past a seq. Both `_id`s begin alike."""
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


_PEERS = {"r0": 1, "r1": 1, "d0": 1, "d1": 1}


def _people_of(head: Document) -> list[Recipient]:
    people = parse_private(head["_id"])
    assert people is not None
    always = ((1, None),)
    return [
        Recipient(user, always, max(head.get(f"d{side}", 0), head.get(f"r{side}", 0)), head.get(f"r{side}", 0))
        for side, user in enumerate(people[:2])
    ]


def _recipient_from(conversation: ConversationId, row: Document) -> Recipient:
    intervals = tuple((first, None if last == _NO_END else last) for first, last in row["i"])
    return Recipient(UserId(row["_id"][len(conversation) + 1 :]), intervals, row.get("ad", 0), row.get("ar", 0))


def _receipt_from(recipient: Recipient, seq: int, delivered: list[Document], read: list[Document]) -> Receipt:
    read_at = read[0]["at"] if read else None
    times = [mark["at"] for mark in (*delivered, *read)]
    return Receipt(recipient.user, recipient.status_of(seq), min(times, default=None), read_at)
