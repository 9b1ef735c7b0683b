"""The members of the union MessageEvent, each with the event that it shows.

A new event kind needs its GraphQL type here and nothing else in this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union

import strawberry

from resolvers.live.live_stream import CaughtUp
from schema.events.caught_up import CaughtUpType
from schema.events.messages import MessageCreatedType, MessageRecalledType, MessageUpdatedType
from schema.events.receipts import ReceiptAdvancedType
from schema.events.typing import TypingStartedType
from subscriptions.realtime.events.messages import MessageCreated, MessageRecalled, MessageUpdated
from subscriptions.realtime.events.receipts import ReceiptAdvanced
from subscriptions.realtime.events.typing import TypingStarted

MESSAGE_EVENT_TYPES: Mapping[type, type] = {
    MessageCreated: MessageCreatedType,
    MessageUpdated: MessageUpdatedType,
    MessageRecalled: MessageRecalledType,
    ReceiptAdvanced: ReceiptAdvancedType,
    TypingStarted: TypingStartedType,
    CaughtUp: CaughtUpType,
}
"""The GraphQL type of each event, with a class method `from_event`."""

_CONVERSIONS: Mapping[type, Callable[[Any], object]] = {
    event: getattr(shown, "from_event") for event, shown in MESSAGE_EVENT_TYPES.items()
}


def message_event_union() -> object:
    """Return the union for the schema."""
    return Annotated[
        Union[tuple(MESSAGE_EVENT_TYPES.values())],
        strawberry.union(
            "MessageEvent",
            description="cursor: resume after this event. A client that has applied it holds everything before it. CaughtUp "
            "marks the moment between what was missed and what is live; reset true: start from syncSessions anew.",
        ),
    ]


def message_event_from(event: object) -> object:
    """Return an event as the API shows it."""
    return _CONVERSIONS[type(event)](event)
