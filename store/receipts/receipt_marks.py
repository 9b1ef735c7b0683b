"""Marks: one row per acknowledgement, however many messages it covers and however large the group is.

`receipts` {_id: "<conversation> <user> <R or D><seq>", at: ms}. A message reached a recipient at the time of the first
mark at or past its seq, so this time never goes back. The positions of all members are stored separately, so that a
group is counted without reading marks: in `members`, and for private conversations in `conversations`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from store.base.ids import ConversationId, UserId, parse_private
from store.conversations.conversation_fields import ConversationField, MemberField
from store.mongo.collections import member_row_id, receipt_row_id
from store.mongo.writes import Document, Update

MARKED_AT = "at"
"""Stored name of a mark's time (ms)."""


class ReceiptKind(StrEnum):
    """Kinds of acknowledgement, with stored values. READ includes DELIVERED."""

    DELIVERED = "D"
    READ = "R"


@dataclass(frozen=True, slots=True)
class ReceiptMark:
    """An acknowledgement by a user of everything in a conversation up to and including a seq."""

    conversation: ConversationId
    user: UserId
    kind: ReceiptKind
    seq: int


def mark_row(mark: ReceiptMark, at_ms: int) -> Document:
    """Return the row of a mark. Inserting it again keeps the first time."""
    return {"_id": receipt_row_id(mark.conversation, mark.user, mark.kind.value, mark.seq), MARKED_AT: at_ms}


def progress_updates(marks: Iterable[ReceiptMark]) -> list[Update]:
    """Return the updates of the positions of group members."""
    updates = []
    for mark in marks:
        if parse_private(mark.conversation) is None:
            progress = {MemberField.DELIVERED: mark.seq}
            if mark.kind is ReceiptKind.READ:
                progress[MemberField.READ] = mark.seq
            updates.append(Update({"_id": member_row_id(mark.conversation, mark.user)}, {"$max": progress}))
    return updates


def peer_updates(marks: Iterable[ReceiptMark], at_ms: int) -> list[Update]:
    """Return the updates of private conversations' heads. They move the other person's session too."""
    updates = []
    for mark in marks:
        people = parse_private(mark.conversation)
        if people is not None:
            side = 0 if people[0] == mark.user else 1
            progress = {ConversationField.DELIVERED[side]: mark.seq, ConversationField.MOVED_AT: at_ms}
            if mark.kind is ReceiptKind.READ:
                progress[ConversationField.READ[side]] = mark.seq
            updates.append(Update({"_id": mark.conversation}, {"$max": progress}))
    return updates
