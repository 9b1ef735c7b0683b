"""Receipts: a message's status for each recipient, and counted over all recipients."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from resolvers.base.cursors import decode_page
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from store.base.ids import UserId
from store.messages.message import Message
from store.receipts.receipt_marks import ReceiptKind
from store.receipts.receipt_pages import Receipt, ReceiptQuery, ReceiptRows
from store.receipts.recipients import Recipient


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """The number of a message's recipients, and of those who have received and read it."""

    recipients: int
    delivered: int
    read: int

    @property
    def status(self) -> ReceiptKind | None:
        """Status that all recipients have reached. None: not delivered to all, or no recipients."""
        if self.recipients == 0 or self.delivered < self.recipients:
            return None
        return ReceiptKind.READ if self.read == self.recipients else ReceiptKind.DELIVERED


class _RangeCounter:
    """Counts the ranges of seq, ends included, that contain a seq."""

    def __init__(self, ranges: Iterable[tuple[int, float]]) -> None:
        not_empty = [(first, last) for first, last in ranges if first <= last]
        self._firsts = sorted(first for first, _ in not_empty)
        self._lasts = sorted(last for _, last in not_empty)

    def count(self, seq: int) -> int:
        """Return the number of ranges that contain a seq."""
        return bisect_right(self._firsts, seq) - bisect_left(self._lasts, seq)


class GroupProgress:
    """Progress of the recipients of one sender's messages in one conversation.

    Built once for any number of messages: each summary takes two binary searches per count, whatever the group's size.
    """

    def __init__(self, recipients: Iterable[Recipient], sender: UserId) -> None:
        ranges = [
            (first, float("inf") if last is None else last, recipient)
            for recipient in recipients
            if recipient.user != sender
            for first, last in recipient.intervals
        ]
        self._all = _RangeCounter((first, last) for first, last, _ in ranges)
        self._delivered = _RangeCounter((first, min(last, recipient.delivered)) for first, last, recipient in ranges)
        self._read = _RangeCounter((first, min(last, recipient.read)) for first, last, recipient in ranges)

    def summarize(self, seq: int) -> DeliverySummary:
        """Return the summary of the message at a seq."""
        return DeliverySummary(self._all.count(seq), self._delivered.count(seq), self._read.count(seq))


def may_see_receipts(message: Message, *, is_sender: bool) -> bool:
    """Return whether a viewer may see a message's receipts. Only its sender may, if it has receipts."""
    return is_sender and message.has_receipts and not message.is_withheld


def receipt_query(
    message: Message, first: int | None, after: str | None, status: str | None, *, is_sender: bool
) -> ReceiptQuery | None:
    """Return the query for a page of a message's receipts. status: READ, DELIVERED, SENT, or None for all.

    Returns None unless `is_sender` is true. Raises InvalidInput.
    """
    size = check_page_size(first, "first")
    start = _decode_cursor(message, after) if after is not None else ""
    if not may_see_receipts(message, is_sender=is_sender):
        return None
    # One more than the page has tells whether there is a next page.
    return ReceiptQuery(message.conversation, message.sender, message.seq, status, start, size + 1)


def receipt_page(query: ReceiptQuery, rows: ReceiptRows) -> Page[Receipt]:
    """Return the page of a query, in the order of user ids."""
    size, found = query.limit - 1, rows.page(query)
    edges = [Edge(each, ("r", query.conversation, query.seq, each.user)) for each in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=bool(query.after))


def _decode_cursor(message: Message, after: str) -> str:
    parts = decode_page("r", after, "after")
    if len(parts) != 3 or parts[:2] != [message.conversation, str(message.seq)]:
        raise InvalidInput("after must be a cursor of this list", field="after")
    return parts[2]
