"""Queries of moderation."""

from __future__ import annotations

import strawberry

from resolvers.moderation import banning
from schema.base.context import Info
from schema.moderation.ban_types import BanConnection, ban_connection


@strawberry.type
class ModerationQueries:
    @strawberry.field(description="BAN_MEMBERS; without a workspace: role admin, bans from the whole deployment.")
    async def bans(
        self, info: Info, workspace_id: strawberry.ID | None = None, first: int | None = 50, after: str | None = None
    ) -> BanConnection:
        caller = info.context.caller
        assert caller is not None
        return ban_connection(await banning.list_bans(info.context.app, caller, workspace_id, first, after))
