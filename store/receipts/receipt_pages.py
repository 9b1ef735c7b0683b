"""Pages of receipts. The pages of messages that are close to each other are read together (ADR 52)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from store.base.ids import ConversationId, UserId
from store.conversations.conversation_fields import NO_END, MemberField
from store.mongo.client import Document
from store.mongo.collections import RECEIPTS, member_row_id, receipt_row_end, seq_of_receipt
from store.receipts.receipt_marks import MARKED_AT, ReceiptKind
from store.receipts.recipients import MEMBER_PROGRESS, Recipient

LAST_SEQ = 0xFFFFFFFF

_SEQS_PER_READ = 32
"""Width of the range of seqs whose receipts are read together. A recipient may have a mark of each kind at each seq."""


class ReceiptQuery(NamedTuple):
    """A page of a message's receipts, in the order of the recipients' user ids.

    Attributes:
        conversation: The message's conversation.
        sender: The message's sender, who has no receipt.
        seq: The message's seq.
        status: READ, DELIVERED, SENT (neither), or None: any.
        after: A user id to continue after, or "".
        limit: Most receipts on the page.
    """

    conversation: ConversationId
    sender: UserId
    seq: int
    status: str | None
    after: str
    limit: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The status of one message for one recipient. Times in ms."""

    user: UserId
    status: ReceiptKind | None
    delivered_at_ms: int | None
    read_at_ms: int | None


class _Marks:
    """Marks of one recipient and kind, in the order of seq."""

    __slots__ = ("_seqs", "_times")

    def __init__(self, rows: Sequence[Document]) -> None:
        self._seqs = [seq_of_receipt(row["_id"]) for row in rows]
        self._times = [row[MARKED_AT] for row in rows]

    def reached_at(self, seq: int) -> int | None:
        """Return the time of the first mark at or past a seq."""
        index = bisect_left(self._seqs, seq)
        return self._times[index] if index < len(self._times) else None


class ReceiptWindow(NamedTuple):
    """Queries that are read together. They differ in `seq` only.

    `template` has their common fields; its `seq` means nothing.
    """

    template: ReceiptQuery
    first: int
    last: int
    queries: Sequence[ReceiptQuery]

    @classmethod
    def of(cls, queries: Sequence[ReceiptQuery]) -> ReceiptWindow:
        """Return the window of queries that are sorted by seq."""
        return cls(queries[0], queries[0].seq, queries[-1].seq, queries)

    @property
    def max_marks(self) -> int:
        """Marks of one recipient and kind that decide the times: one at each seq of the window, and the next one."""
        return self.last - self.first + 2


class ReceiptRows:
    """Recipients with their marks, from one read for messages that are close to each other."""

    __slots__ = ("_has_all", "_rows")

    def __init__(
        self, window: ReceiptWindow, rows: Sequence[tuple[Recipient, Sequence[Document], Sequence[Document]]]
    ) -> None:
        """Create from the first recipients in the order of their ids, each with their DELIVERED and READ marks."""
        self._rows = [(recipient, _Marks(delivered), _Marks(read)) for recipient, delivered, read in rows]
        self._has_all = len(rows) < window.template.limit or (
            window.template.status is None and all(each.was_member(window.first, window.last) for each, *_ in rows)
        )

    def has_page(self, query: ReceiptQuery) -> bool:
        """Return whether the whole page of a message was read."""
        return self._has_all or sum(1 for _ in islice(self._matching(query), query.limit)) == query.limit

    def page(self, query: ReceiptQuery) -> list[Receipt]:
        """Return the page of a message."""
        return [self._receipt(*row, query.seq) for row in islice(self._matching(query), query.limit)]

    def _matching(self, query: ReceiptQuery) -> Iterator[tuple[Recipient, _Marks, _Marks]]:
        seq, status, after = query.seq, query.status, query.after
        for row in self._rows:
            recipient = row[0]
            if recipient.user > after and recipient.was_member(seq, seq):
                reached = recipient.status_of(seq)
                if status is None or status == (reached.name if reached is not None else "SENT"):
                    yield row

    @staticmethod
    def _receipt(recipient: Recipient, delivered: _Marks, read: _Marks, seq: int) -> Receipt:
        delivered_at, read_at = delivered.reached_at(seq), read.reached_at(seq)
        times = [time for time in (delivered_at, read_at) if time is not None]
        return Receipt(recipient.user, recipient.status_of(seq), min(times, default=None), read_at)


def windows_of(queries: Iterable[ReceiptQuery]) -> list[ReceiptWindow]:
    """Divide queries into windows."""
    alike: defaultdict[ReceiptQuery, set[int]] = defaultdict(set)
    for query in queries:
        alike[query._replace(seq=0)].add(query.seq)
    windows = []
    for query, seqs in alike.items():
        window: list[ReceiptQuery] = []
        for seq in sorted(seqs):
            if window and seq - window[0].seq >= _SEQS_PER_READ:
                windows.append(ReceiptWindow.of(window))
                window = []
            window.append(query._replace(seq=seq))
        windows.append(ReceiptWindow.of(window))
    return windows


def receipts_pipeline(window: ReceiptWindow) -> list[dict[str, Any]]:
    """Return the aggregation over a group's members that may be on one of the pages, with their marks.

    Each row has the marks under their kind's value (D and R).
    """
    query = window.template
    start = member_row_id(query.conversation, UserId(query.after)) if query.after else f"{query.conversation} "
    sender = member_row_id(query.conversation, query.sender)
    ids = {"_id": {"$gt": start, "$lt": f"{query.conversation}!", "$ne": sender}}
    not_ended = {"$or": [{"1": NO_END}, {"1": {"$gte": window.first}}]}
    member_then = {MemberField.INTERVALS: {"$elemMatch": {"0": {"$lte": window.last}, **not_ended}}}
    return [
        {"$match": ids | member_then | _status_query(window)},
        {"$sort": {"_id": 1}},
        {"$limit": query.limit},
        {"$project": MEMBER_PROGRESS},
        _lookup_marks(ReceiptKind.DELIVERED.value, window),
        _lookup_marks(ReceiptKind.READ.value, window),
    ]


def _status_query(window: ReceiptWindow) -> Document:
    """Return the query for members who may have the status at one of the seqs."""
    reached_first, missing_last = {"$gte": window.first}, {"$not": {"$gte": window.last}}
    queries: dict[str | None, Document] = {
        None: {},
        "READ": {MemberField.READ: reached_first},
        "DELIVERED": {MemberField.DELIVERED: reached_first, MemberField.READ: missing_last},
        "SENT": {MemberField.DELIVERED: missing_last},
    }
    return queries[window.template.status]


def _lookup_marks(kind: str, window: ReceiptWindow) -> dict[str, Any]:
    """Join a membership with its user's marks of a kind. The `_id` of a mark begins with that of the membership."""
    first, last = (receipt_row_end(kind, seq) for seq in (window.first, LAST_SEQ))
    return {
        "$lookup": {
            "from": RECEIPTS,
            "let": {"first": {"$concat": ["$_id", first]}, "last": {"$concat": ["$_id", last]}},
            "pipeline": [
                {"$match": {"$expr": {"$and": [{"$gte": ["$_id", "$$first"]}, {"$lte": ["$_id", "$$last"]}]}}},
                {"$sort": {"_id": 1}},
                {"$limit": window.max_marks},
            ],
            "as": kind,
        }
    }
