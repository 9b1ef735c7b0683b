"""The GraphQL types of the events of pinned messages."""

from __future__ import annotations

from typing import Self

import strawberry

from schema.base.context import Info
from schema.base.scalars import Cursor, Timestamp
from schema.compiler import then
from schema.events.source import CURSOR
from schema.messages.message_types import MessageType, message_from
from store.base.ids import ConversationId
from subscriptions.realtime.events.messages import PinsChanged
from subscriptions.realtime.events.shared import ChannelPins


@strawberry.type
class WithPinCount:
    """Base of both types. Not in the schema itself."""

    conversation_id: strawberry.ID

    @strawberry.field
    def pin_count(self, info: Info) -> int:
        # Read when the event is rendered, which is after its tick. So the last event has the present count, even if two
        # events are not in the order of their changes.
        count = info.context.loaders.pin_counts.find(ConversationId(self.conversation_id))
        return then(count, lambda count: count)


@strawberry.type(name="PinsChanged")
class PinsChangedType(WithPinCount):
    message: MessageType
    cursor: Cursor

    @classmethod
    def from_event(cls, event: PinsChanged) -> Self:
        """Return the event as the API shows it."""
        conversation = strawberry.ID(event.conversation)
        return cls(conversation_id=conversation, message=message_from(event.message), cursor=CURSOR)


@strawberry.type(name="ChannelPins")
class ChannelPinsType(WithPinCount):
    message: MessageType
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ChannelPins) -> Self:
        """Return the event as the API shows it."""
        conversation = strawberry.ID(event.conversation)
        return cls(conversation_id=conversation, message=message_from(event.message), rev=Timestamp(event.rev))
