"""Recipients of a conversation's messages, with their delivered and read positions."""

from __future__ import annotations

from dataclasses import dataclass

from store.base.ids import ConversationId, UserId, parse_private
from store.conversations.conversation_fields import NO_END, ConversationField, MemberField
from store.mongo.client import Document
from store.receipts.receipt_marks import ReceiptKind

MEMBER_PROGRESS = {MemberField.INTERVALS: 1, MemberField.READ: 1, MemberField.DELIVERED: 1}
"""The fields of a row in `members` that `member_from_row` needs."""

PEER_PROGRESS = dict.fromkeys((*ConversationField.READ, *ConversationField.DELIVERED), 1)
"""The fields of a document in `conversations` that `peers_from_row` needs."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A user who is or was in a conversation, and how far they have received and read it.

    `intervals`: first and last seq of each membership, ends included; None: not ended.
    """

    user: UserId
    intervals: tuple[tuple[int, int | None], ...]
    delivered: int
    read: int

    def was_member(self, first: int, last: int) -> bool:
        """Return whether the user was a member from one seq to another, without a break."""
        for begin, end in self.intervals:  # noqa: SIM110 - this is called for each receipt, and `any` is slow
            if begin <= first and (end is None or last <= end):
                return True
        return False

    def status_of(self, seq: int) -> ReceiptKind | None:
        """Return the status of the message at a seq for this recipient; None: not delivered yet."""
        if self.read >= seq:
            return ReceiptKind.READ
        return ReceiptKind.DELIVERED if self.delivered >= seq else None


def member_from_row(conversation: ConversationId, row: Document) -> Recipient:
    """Return a member of a group, from the row of the membership."""
    user = UserId(row["_id"][len(conversation) + 1 :])
    intervals = tuple((first, None if last == NO_END else last) for first, last in row[MemberField.INTERVALS])
    return Recipient(user, intervals, row.get(MemberField.DELIVERED, 0), row.get(MemberField.READ, 0))


def peers_from_row(head: Document) -> list[Recipient]:
    """Return the two people of a private conversation, from its document."""
    people = parse_private(head["_id"])
    assert people is not None
    recipients = []
    for side, user in enumerate(people[:2]):
        read = head.get(ConversationField.READ[side], 0)
        delivered = max(head.get(ConversationField.DELIVERED[side], 0), read)
        recipients.append(Recipient(user, ((1, None),), delivered, read))
    return recipients
