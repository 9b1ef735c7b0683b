"""What became of a message: counted for its sender, and told recipient by recipient."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page, encode_page
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from store.base.ids import UserId
from store.messages.records import Message
from store.receipts.receipt_store import Receipt, ReceiptKind, Recipient


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """How many recipients a message has, has reached and was read by."""

    recipients: int
    delivered: int
    read: int

    @property
    def status(self) -> ReceiptKind | None:
        """What all recipients have done; None where one has not even received it, or there is none."""
        if self.recipients == 0 or self.delivered < self.recipients:
            return None
        return ReceiptKind.READ if self.read == self.recipients else ReceiptKind.DELIVERED


class _Spans:
    """Stretches of seq, ends included, of which one asks how many hold a seq."""

    def __init__(self, spans: Iterable[tuple[int, float]]) -> None:
        held = [(first, last) for first, last in spans if first <= last]
        self._firsts = sorted(first for first, _ in held)
        self._lasts = sorted(last for _, last in held)

    def count(self, seq: int) -> int:
        return bisect_right(self._firsts, seq) - bisect_left(self._lasts, seq)


class GroupProgress:
    """How far the recipients of one sender's messages in one conversation are. Asked for any number of messages, each costs next
    to nothing, however large the group."""

    def __init__(self, recipients: Iterable[Recipient], sender: UserId) -> None:
        spans = [
            (first, float("inf") if last is None else last, recipient)
            for recipient in recipients
            if recipient.user != sender
            for first, last in recipient.intervals
        ]
        self._all = _Spans((first, last) for first, last, _ in spans)
        self._delivered = _Spans((first, min(last, recipient.delivered)) for first, last, recipient in spans)
        self._read = _Spans((first, min(last, recipient.read)) for first, last, recipient in spans)

    def of(self, seq: int) -> DeliverySummary:
        """What became of the message at a seq."""
        return DeliverySummary(self._all.count(seq), self._delivered.count(seq), self._read.count(seq))


def may_see_receipts(message: Message, *, is_sender: bool) -> bool:
    """Only who sent it may; of what the server wrote nobody."""
    return is_sender and message.kind.countable


async def list_receipts(
    app: Confab, message: Message, first: int | None, after: str | None, status: str | None, *, is_sender: bool
) -> Page[Receipt] | None:
    """A message's recipients in order of their ids, those with a status (READ, DELIVERED, SENT) or all. None to all but its
    sender: `is_sender` says whether it is they who ask. Raises InvalidInput."""
    size = check_page_size(first, "first")
    start = _decode(message, after) if after is not None else ""
    if not may_see_receipts(message, is_sender=is_sender):
        return None
    found = await app.store.receipts.list_receipts(
        message.conversation, message.seq, message.sender, status=status, after=start, limit=size + 1
    )
    edges = [Edge(each, encode_page("r", message.conversation, message.seq, each.user)) for each in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=after is not None)


def _decode(message: Message, after: str) -> str:
    parts = decode_page("r", after, "after")
    if len(parts) != 3 or parts[:2] != [message.conversation, str(message.seq)]:
        raise InvalidInput("after is not a cursor of this list", field="after")
    return parts[2]
