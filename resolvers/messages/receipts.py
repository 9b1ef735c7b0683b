"""Receipts: a message's status for each recipient, and counted over all recipients."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from store.base.ids import UserId
from store.messages.message import Message
from store.receipts.receipt_marks import ReceiptKind
from store.receipts.receipt_store import Receipt, Recipient


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
    return is_sender and message.has_receipts


async def list_receipts(
    app: Confab, message: Message, first: int | None, after: str | None, status: str | None, *, is_sender: bool
) -> Page[Receipt] | None:
    """Return a page of a message's receipts in order of user ids. status: READ, DELIVERED, SENT, or None for all.

    Returns None unless `is_sender` is true. Raises InvalidInput.
    """
    size = check_page_size(first, "first")
    start = _decode_cursor(message, after) if after is not None else ""
    if not may_see_receipts(message, is_sender=is_sender):
        return None
    found = await app.store.receipts.list_receipts(
        message.conversation, message.seq, message.sender, status=status, after=start, limit=size + 1
    )
    edges = [Edge(each, ("r", message.conversation, message.seq, each.user)) for each in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=after is not None)


def _decode_cursor(message: Message, after: str) -> str:
    parts = decode_page("r", after, "after")
    if len(parts) != 3 or parts[:2] != [message.conversation, str(message.seq)]:
        raise InvalidInput("after must be a cursor of this list", field="after")
    return parts[2]
