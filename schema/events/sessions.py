"""The GraphQL type of session changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

import strawberry

from resolvers.base.pages import LARGEST_PAGE
from resolvers.conversations.access import access_from
from resolvers.live.live_stream import SessionSync
from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.base.scalars import Cursor
from schema.compiler import then
from schema.events.source import CURSOR
from schema.sessions.session_types import SessionType, session_from
from store.sessions.fields import SyncReason
from store.sessions.session import Session
from store.sessions.session_lists import is_channel
from subscriptions.realtime.events.sessions import SessionChanged

strawberry.enum(SyncReason)


def _visible_sessions(root: SyncSessionType, info: Info) -> list[SessionType]:
    """Return the changed sessions without those in channels that the subscriber can't see any more."""
    channels = [session.conversation for session in root.changed if is_channel(session.conversation)]
    if not channels:
        return [session_from(session) for session in root.changed]

    def visible(found: Sequence[Any]) -> list[SessionType]:
        places = dict(zip(channels, found, strict=True))
        return [
            session_from(session)
            for session in root.changed
            if not is_channel(session.conversation) or _is_visible(places[session.conversation])
        ]

    return then(asyncio.gather(*map(info.context.loaders.conversations.load, channels)), visible)


def _is_visible(found: Any) -> bool:
    return found is not None and access_from(found) is not None


@strawberry.type(name="SyncSession", description="hasMore: further parts of CATCH_UP follow; false for live changes.")
class SyncSessionType:
    reason: SyncReason
    has_more: bool
    changed: strawberry.Private[Sequence[Session]]
    sessions: list[SessionType] = strawberry.field(resolver=_visible_sessions, metadata=holds(LARGEST_PAGE))
    total_unread: int
    cursor: Cursor
    reset: bool

    @classmethod
    def from_event(cls, event: SessionChanged | SessionSync) -> Self:
        """Return the GraphQL object of a live change, or of a part of the missed changes."""
        return cls(
            reason=event.reason,
            has_more=isinstance(event, SessionSync) and event.has_more,
            changed=event.sessions,
            total_unread=event.total_unread,
            cursor=CURSOR,
            reset=isinstance(event, SessionSync) and event.reset,
        )
