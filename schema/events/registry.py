"""The members of the union MessageEvent, each with the event that it represents.

A new event kind needs its GraphQL type here and nothing else in this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Protocol

import strawberry

from resolvers.live.live_stream import CaughtUp
from schema.events.caught_up import CaughtUpType
from schema.events.groups import GroupChangedType
from schema.events.messages import MentionedType, MessageCreatedType, MessageRecalledType, MessageUpdatedType
from schema.events.pins import PinsChangedType
from schema.events.reactions import ReactionsChangedType
from schema.events.receipts import ReceiptAdvancedType
from schema.events.threads import ThreadChangedType
from schema.events.typing import TypingStartedType, TypingStoppedType
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import (
    Mentioned,
    MessageCreated,
    MessageRecalled,
    MessageUpdated,
    PinsChanged,
)
from subscriptions.realtime.events.reactions import ReactionsChanged
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.threads import ThreadChanged
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped


class MessageEventType(Protocol):
    """A GraphQL type that represents one kind of event."""

    @classmethod
    def from_event(cls, event: Any) -> object:
        """Return the GraphQL object of an event, with CURSOR for the cursor."""


MESSAGE_EVENT_TYPES: Mapping[type, type[MessageEventType]] = {
    MessageCreated: MessageCreatedType,
    MessageUpdated: MessageUpdatedType,
    MessageRecalled: MessageRecalledType,
    ReceiptAdvanced: ReceiptAdvancedType,
    GroupChanged: GroupChangedType,
    ThreadChanged: ThreadChangedType,
    Mentioned: MentionedType,
    PinsChanged: PinsChangedType,
    ReactionsChanged: ReactionsChangedType,
    TypingStarted: TypingStartedType,
    TypingStopped: TypingStoppedType,
    CaughtUp: CaughtUpType,
}
"""The GraphQL type of each event."""


def message_event_union() -> object:
    """Return the union for the schema."""
    return Annotated[
        reduce(or_, MESSAGE_EVENT_TYPES.values()),
        strawberry.union(
            "MessageEvent",
            description="cursor: resume after this event; a client that has applied it holds everything before it. "
            "CaughtUp marks the moment between what was missed and what is live; reset: true means: start over from "
            "syncSessions.",
        ),
    ]


def message_event_from(event: object) -> object:
    """Return the GraphQL object of an event."""
    return MESSAGE_EVENT_TYPES[type(event)].from_event(event)
