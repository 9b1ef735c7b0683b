"""The GraphQL types of message events."""

from __future__ import annotations

from typing import Self

import strawberry

from schema.base.scalars import Cursor
from schema.events.source import CURSOR
from schema.messages.message_types import MessageType, message_from
from subscriptions.realtime.events.messages import MessageEvent


@strawberry.type
class WithMessage:
    """Base of the events that carry a message. Not in the schema itself."""

    message: MessageType
    cursor: Cursor

    @classmethod
    def from_event(cls, event: MessageEvent) -> Self:
        """Return the GraphQL object of an event."""
        return cls(message=message_from(event.message), cursor=CURSOR)


@strawberry.type(name="MessageCreated")
class MessageCreatedType(WithMessage):
    pass


@strawberry.type(name="MessageUpdated")
class MessageUpdatedType(WithMessage):
    pass


@strawberry.type(name="MessageRecalled")
class MessageRecalledType(WithMessage):
    pass


@strawberry.type(
    name="Mentioned",
    description="A channel message that mentions the caller by name, or by a role of at most 200 members, followed or "
    "not. @everyone only counts in Session.",
)
class MentionedType(WithMessage):
    pass
