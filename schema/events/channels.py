"""The GraphQL types of channel events."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Self

import strawberry

from resolvers.live.channel_events import AccessEnded, ChannelCaughtUp
from resolvers.live.shared_positions import SharedPosition
from schema.base.scalars import Timestamp
from schema.events.pins import ChannelPinsType
from schema.events.reactions import ChannelReactionsType
from schema.events.registry import MessageEventType
from schema.events.threads import ChannelThreadType
from schema.events.typing import TypingStartedType, TypingStoppedType
from schema.messages.message_types import MessageType, message_from
from subscriptions.realtime.events.reactions import ChannelReactions
from subscriptions.realtime.events.shared import ChannelMessage, ChannelPins, MessageChange
from subscriptions.realtime.events.threads import ChannelThread
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped

MessageChangeType = strawberry.enum(MessageChange)


@strawberry.input(name="Position", description="rev null: from now on.")
class PositionInput:
    id: strawberry.ID
    rev: Timestamp | None = None

    def to_position(self) -> SharedPosition:
        """Return the position for the use case."""
        return SharedPosition(self.id, self.rev)


@strawberry.type(name="ChannelMessage")
class ChannelMessageType:
    conversation_id: strawberry.ID
    change: MessageChange
    message: MessageType
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ChannelMessage) -> Self:
        """Return the GraphQL object of an event."""
        return cls(
            conversation_id=strawberry.ID(event.conversation),
            change=event.change,
            message=message_from(event.message),
            rev=Timestamp(event.rev),
        )


@strawberry.type(name="AccessEnded")
class AccessEndedType:
    conversation_id: strawberry.ID

    @classmethod
    def from_event(cls, event: AccessEnded) -> Self:
        """Return the GraphQL object of an event."""
        return cls(conversation_id=strawberry.ID(event.conversation))


@strawberry.type(name="ChannelCaughtUp")
class ChannelCaughtUpType:
    conversation_id: strawberry.ID
    rev: Timestamp
    reset: bool

    @classmethod
    def from_event(cls, event: ChannelCaughtUp) -> Self:
        """Return the GraphQL object of an event."""
        return cls(conversation_id=strawberry.ID(event.conversation), rev=Timestamp(event.rev), reset=event.reset)


CHANNEL_EVENT_TYPES: Mapping[type, type[MessageEventType]] = {
    ChannelMessage: ChannelMessageType,
    ChannelPins: ChannelPinsType,
    ChannelReactions: ChannelReactionsType,
    ChannelThread: ChannelThreadType,
    TypingStarted: TypingStartedType,
    TypingStopped: TypingStoppedType,
    AccessEnded: AccessEndedType,
    ChannelCaughtUp: ChannelCaughtUpType,
}
"""The GraphQL type of each event."""


def channel_event_union() -> object:
    """Return the union for the schema."""
    return Annotated[reduce(or_, CHANNEL_EVENT_TYPES.values()), strawberry.union("ChannelEvent")]


def channel_event_from(event: object) -> object:
    """Return the GraphQL object of an event."""
    return CHANNEL_EVENT_TYPES[type(event)].from_event(event)
