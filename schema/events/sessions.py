"""The GraphQL type of session changes."""

from __future__ import annotations

from typing import Self

import strawberry

from resolvers.base.pages import LARGEST_PAGE
from resolvers.live.live_stream import SessionSync
from schema.base.list_sizes import holds
from schema.base.scalars import Cursor
from schema.events.source import CURSOR
from schema.sessions.session_types import SessionType, session_from
from store.sessions.fields import SyncReason
from subscriptions.realtime.events.sessions import SessionChanged

strawberry.enum(SyncReason)


@strawberry.type(name="SyncSession", description="hasMore: further parts of CATCH_UP follow; false for live changes.")
class SyncSessionType:
    reason: SyncReason
    has_more: bool
    sessions: list[SessionType] = strawberry.field(metadata=holds(LARGEST_PAGE))
    total_unread: int
    cursor: Cursor
    reset: bool

    @classmethod
    def from_event(cls, event: SessionChanged | SessionSync) -> Self:
        """Return the GraphQL object of a live change, or of a part of the missed changes."""
        return cls(
            reason=event.reason,
            has_more=isinstance(event, SessionSync) and event.has_more,
            sessions=[session_from(session) for session in event.sessions],
            total_unread=event.total_unread,
            cursor=CURSOR,
            reset=isinstance(event, SessionSync) and event.reset,
        )
