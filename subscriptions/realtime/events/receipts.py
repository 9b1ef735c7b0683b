"""The event of an acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from store.base.ids import ConversationId, UserId
from store.receipts.receipt_marks import ReceiptKind
from subscriptions.realtime.events.base import ConversationEvent, Fields


@dataclass(frozen=True, slots=True)
class ReceiptAdvanced(ConversationEvent):
    """A user has received or read everything up to seq."""

    code = "r"

    user: UserId
    kind: ReceiptKind
    seq: int

    def wire_fields(self) -> Fields:
        """Return all of it."""
        return {"c": self.conversation, "u": self.user, "st": self.kind.value, "s": self.seq}

    @classmethod
    def from_wire(cls, fields: Fields) -> Self:
        """Return the event that another server sent, or that the log holds."""
        return cls(ConversationId(fields["c"]), UserId(fields["u"]), ReceiptKind(fields["st"]), fields["s"])
