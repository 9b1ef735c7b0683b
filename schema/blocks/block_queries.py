"""The query of blocked users."""

from __future__ import annotations

import strawberry

from resolvers.blocks import blocking
from schema.base.context import Info
from schema.users.user_types import UserConnection, user_connection


@strawberry.type
class BlockQueries:
    @strawberry.field
    async def blocked_users(self, info: Info, first: int | None = 50, after: str | None = None) -> UserConnection:
        context = info.context
        return user_connection(await blocking.list_blocked(context.app, context.viewer, first, after))
