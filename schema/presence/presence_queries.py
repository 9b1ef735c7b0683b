"""Queries of presence."""

from __future__ import annotations

import strawberry

from resolvers.presence import presences
from schema.base.context import Info
from schema.base.list_sizes import one_for_each
from schema.presence.presence_types import PresenceType, presence_from


@strawberry.type
class PresenceQueries:
    @strawberry.field(
        description="Of up to 200 people with whom the caller shares a conversation or workspace; for others OFFLINE.",
        metadata=one_for_each("userIds"),
    )
    async def presences(self, info: Info, user_ids: list[strawberry.ID]) -> list[PresenceType]:
        app = info.context.app
        found = await presences.list_presences(app, info.context.viewer, user_ids)
        return [presence_from(shown, app.store.clock.now_ms()) for shown in found]
