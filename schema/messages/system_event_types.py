"""The GraphQL types of system events."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum

import strawberry

from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.compiler import prefetched_by, reads
from schema.users.user_types import UserType, load_user
from store.messages import system_events
from store.messages.message import Message


@strawberry.enum(name="SystemEventKind")
class SystemEventKindType(Enum):
    MEMBERS_JOINED = system_events.SystemEventKind.MEMBERS_JOINED
    MEMBER_LEFT = system_events.SystemEventKind.MEMBER_LEFT
    MEMBER_REMOVED = system_events.SystemEventKind.MEMBER_REMOVED
    OWNER_CHANGED = system_events.SystemEventKind.OWNER_CHANGED
    RENAMED = system_events.SystemEventKind.RENAMED
    TOPIC_CHANGED = system_events.SystemEventKind.TOPIC_CHANGED
    MESSAGE_PINNED = system_events.SystemEventKind.MESSAGE_PINNED
    CHANNEL_ARCHIVED = system_events.SystemEventKind.CHANNEL_ARCHIVED
    CHANNEL_UNARCHIVED = system_events.SystemEventKind.CHANNEL_UNARCHIVED
    CUSTOM = system_events.SystemEventKind.CUSTOM


def _prefetch_users(context: Context, events: Sequence[SystemEventType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users(
        [user for event in events for user in (event.record.sender, *event.record.mentions)]
    )


@strawberry.type(name="SystemEvent")
class SystemEventType:
    record: strawberry.Private[Message]
    event: strawberry.Private[system_events.SystemEvent]
    kind: SystemEventKindType = reads("event.kind")

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def actor(self, info: Info) -> UserType:
        return load_user(info.context, self.record.sender)

    @strawberry.field(metadata=prefetched_by(_prefetch_users) | holds(10))
    def targets(self, info: Info) -> list[UserType]:
        return [load_user(info.context, user) for user in self.record.mentions]

    @strawberry.field
    def text(self) -> str | None:
        is_custom = self.event.kind is system_events.SystemEventKind.CUSTOM
        return self.record.text if is_custom else self.event.text


def system_event_from(message: Message) -> SystemEventType | None:
    """Return the GraphQL object of the event that a message announces, if it announces one."""
    event = message.system_event
    return SystemEventType(record=message, event=event) if event is not None else None
