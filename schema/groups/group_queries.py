"""Queries for groups."""

from __future__ import annotations

import strawberry

from resolvers.groups import groups
from schema.base.context import Info
from schema.groups.group_types import Group, GroupConnection, load_group_connection
from store.base.ids import ConversationId


@strawberry.type
class GroupQueries:
    @strawberry.field
    async def group(self, info: Info, id: strawberry.ID) -> Group | None:
        return await Group.find(info.context, ConversationId(id))

    @strawberry.field
    async def my_groups(self, info: Info, first: int | None = 50, after: str | None = None) -> GroupConnection:
        context = info.context
        page = await groups.list_groups(context.app, context.viewer, first, after)
        return await load_group_connection(context, page)
