"""Queries for reactions."""

from __future__ import annotations

import strawberry

from resolvers.reactions.reactors import list_reactors
from schema.base.context import Info
from schema.users.user_types import UserConnection, user_connection


@strawberry.type
class ReactionQueries:
    @strawberry.field(description="Who reacted with this emoji, the first ones first.")
    async def reactors(
        self, info: Info, message_id: strawberry.ID, emoji: str, first: int | None = 50, after: str | None = None
    ) -> UserConnection:
        context = info.context
        page = await list_reactors(context.app, context.viewer, message_id, emoji, first, after, context.page_sizes)
        return user_connection(page)
