"""The GraphQL types of the events of a message's reactions."""

from __future__ import annotations

from typing import Self

import strawberry

from schema.base.list_sizes import holds
from schema.base.scalars import Cursor, Timestamp
from schema.events.source import CURSOR
from schema.messages.reaction_types import ReactionType, reactions_of
from store.reactions.reaction_draft import MOST_EMOJI
from subscriptions.realtime.events.reactions import ChannelReactions, ReactionsChanged


@strawberry.type(
    name="ReactionsChanged",
    description="The message's reactions as they are now. At most one per 500 ms and message, the last one always. In "
    "groups of more than 200 members in channelEvents only.",
)
class ReactionsChangedType:
    conversation_id: strawberry.ID
    message_id: strawberry.ID
    reactions: list[ReactionType] = strawberry.field(metadata=holds(MOST_EMOJI))
    cursor: Cursor

    @classmethod
    def from_event(cls, event: ReactionsChanged) -> Self:
        """Return the event as the API shows it."""
        message = event.message
        return cls(
            conversation_id=strawberry.ID(message.conversation),
            message_id=strawberry.ID(message.public_id),
            reactions=reactions_of(message),
            cursor=CURSOR,
        )


@strawberry.type(
    name="ChannelReactions",
    description="As ReactionsChanged, PinsChanged and ThreadChanged, on the conversation's own clock.",
)
class ChannelReactionsType:
    conversation_id: strawberry.ID
    message_id: strawberry.ID
    reactions: list[ReactionType] = strawberry.field(metadata=holds(MOST_EMOJI))
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ChannelReactions) -> Self:
        """Return the event as the API shows it."""
        message = event.message
        return cls(
            conversation_id=strawberry.ID(message.conversation),
            message_id=strawberry.ID(message.public_id),
            reactions=reactions_of(message),
            rev=Timestamp(event.rev),
        )
