"""The GraphQL types of the events of changed threads."""

from __future__ import annotations

from typing import Any, Self

import strawberry

from schema.base.context import Context, Info
from schema.base.scalars import Cursor, Timestamp
from schema.compiler import then
from schema.events.source import CURSOR
from schema.threads.thread_types import ThreadType, unreadable_thread
from store.messages.message import Message
from subscriptions.realtime.events.threads import ChannelThread, ThreadChanged


@strawberry.type(
    name="ThreadChanged",
    description="Reply count, participants or lock changed. At most one per second and thread, the last one always.",
)
class ThreadChangedType:
    parent: strawberry.Private[Message]
    parent_id: strawberry.ID
    cursor: Cursor

    @classmethod
    def from_event(cls, event: ThreadChanged) -> Self:
        """Return the GraphQL object of an event."""
        return cls(parent=event.parent, parent_id=strawberry.ID(event.parent.public_id), cursor=CURSOR)

    @strawberry.field
    def thread(self, info: Info) -> ThreadType:
        return _load_thread(info.context, self.parent, None)


@strawberry.type(name="ChannelThread")
class ChannelThreadType:
    parent: strawberry.Private[Message]
    conversation_id: strawberry.ID
    parent_id: strawberry.ID
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ChannelThread) -> Self:
        """Return the GraphQL object of an event."""
        return cls(
            parent=event.message,
            conversation_id=strawberry.ID(event.conversation),
            parent_id=strawberry.ID(event.message.public_id),
            rev=Timestamp(event.rev),
        )

    @strawberry.field
    def thread(self, info: Info) -> ThreadType:
        return _load_thread(info.context, self.parent, self.rev)


def _load_thread(context: Context, parent: Message, rev: int | None) -> Any:
    """Return the thread as the viewer sees it, or a Deferred of it. rev: the position of the event, if it is known."""

    def with_rev(thread: ThreadType | None) -> ThreadType:
        # Rights may have ended since the event was let through.
        found = thread if thread is not None else unreadable_thread(parent)
        found.known_rev = rev
        return found

    return then(context.load_thread(parent), with_rev)
