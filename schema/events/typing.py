"""The GraphQL types of the events of a user who is typing."""

from __future__ import annotations

from typing import Self

import strawberry

from schema.base.context import Info
from schema.base.scalars import Timestamp
from schema.users.user_types import UserType, load_user
from store.base.ids import UserId
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped


@strawberry.type
class TypingEventFields:
    """Base of the events about typing. Not in the schema itself."""

    user_id: strawberry.Private[UserId]
    conversation_id: strawberry.ID
    at: Timestamp

    @classmethod
    def from_event(cls, event: TypingStarted | TypingStopped) -> Self:
        """Return the GraphQL object of an event."""
        return cls(user_id=event.user, conversation_id=strawberry.ID(event.conversation), at=Timestamp(event.at_ms))

    @strawberry.field
    def user(self, info: Info) -> UserType:
        """The user who is typing, or has stopped."""
        return load_user(info.context, self.user_id)


@strawberry.type(name="TypingStarted")
class TypingStartedType(TypingEventFields):
    pass


@strawberry.type(name="TypingStopped")
class TypingStoppedType(TypingEventFields):
    pass
