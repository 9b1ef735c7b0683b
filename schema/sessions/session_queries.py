"""Queries for sessions: the list, synchronisation and totals."""

from __future__ import annotations

import strawberry

from resolvers.sessions import session_lists
from resolvers.sessions.attention import count_attention
from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.base.scalars import Cursor
from schema.sessions.session_types import (
    AttentionType,
    SessionCategory,
    SessionConnection,
    SessionDelta,
    SessionType,
    category_from,
    find_session,
    session_connection,
    session_delta,
)


@strawberry.type
class SessionQueries:
    @strawberry.field
    async def attention(self, info: Info) -> AttentionType:
        return AttentionType(record=await count_attention(info.context.app, info.context.viewer))

    @strawberry.field(
        description="The session list in display order: pinned first by priority, then by writeTs, newest first. "
        "Sessions inside a subBiz are not in the main list (subBiz: null); one gateway session represents them. "
        "INVALID sessions are left out. categoryId alone lists everything filed under that category, including "
        "sessions inside a subBiz."
    )
    async def sessions(
        self,
        info: Info,
        first: int | None = 50,
        after: str | None = None,
        sub_biz: str | None = None,
        category_id: strawberry.ID | None = None,
    ) -> SessionConnection:
        context = info.context
        page = await session_lists.list_sessions(
            context.app, context.viewer, first, after, sub_biz, category_id, context.page_sizes
        )
        return session_connection(page)

    @strawberry.field(
        description="Also returns an INVALID session, with that status. For a channel: the caller's read state there."
    )
    async def session(self, info: Info, conversation_id: strawberry.ID) -> SessionType | None:
        return await find_session(info.context, conversation_id)

    @strawberry.field(
        description="Incremental synchronisation: every session whose activeTs moved past the cursor, oldest change "
        "first, including sessions that became read, muted or INVALID. Without a cursor: all valid sessions. Page "
        "until hasMore is false. The cost depends on how much changed, not on how many sessions the user has."
    )
    async def sync_sessions(self, info: Info, since: Cursor | None = None, first: int | None = 100) -> SessionDelta:
        context = info.context
        delta = await session_lists.sync_sessions(context.app, context.viewer, since, first, context.page_sizes)
        return session_delta(context, delta)

    @strawberry.field(description="Sum of unreadCount over the caller's valid sessions that are not muted.")
    async def total_unread(self, info: Info) -> int:
        return await session_lists.total_unread(info.context.app, info.context.viewer)

    @strawberry.field(
        description="One aggregate for each categoryId in use by the caller. Muted sessions do not count towards its "
        "unreadCount.",
        metadata=holds(50),
    )
    async def session_categories(self, info: Info) -> list[SessionCategory]:
        categories = await session_lists.list_categories(info.context.app, info.context.viewer)
        return [category_from(category) for category in categories]
