"""The GraphQL type of an acknowledgement's event."""

from __future__ import annotations

from typing import Self

import strawberry

from schema.base.context import Info
from schema.base.scalars import Cursor
from schema.events.source import CURSOR
from schema.messages.receipt_types import ReceiptStatus
from schema.users.user_types import UserType, load_user
from store.base.ids import UserId
from subscriptions.realtime.events.receipts import ReceiptAdvanced


@strawberry.type(
    name="ReceiptAdvanced",
    description="One high-water mark: user has received or read everything up to seq. Sent once per acknowledgement, "
    "however many messages it covers, to the user's own devices and to members who sent a message that it covers. "
    "Pushed in groups of up to 200 members; in larger ones query receipts.",
)
class ReceiptAdvancedType:
    user_id: strawberry.Private[UserId]
    conversation_id: strawberry.ID
    status: ReceiptStatus
    seq: int
    cursor: Cursor

    @classmethod
    def from_event(cls, event: ReceiptAdvanced) -> Self:
        """Return the GraphQL object of an event."""
        return cls(
            user_id=event.user,
            conversation_id=strawberry.ID(event.conversation),
            status=ReceiptStatus(event.kind),
            seq=event.seq,
            cursor=CURSOR,
        )

    @strawberry.field
    def user(self, info: Info) -> UserType:
        """The user who has received or read the messages."""
        return load_user(info.context, self.user_id)
