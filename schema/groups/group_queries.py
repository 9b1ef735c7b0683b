"""Queries for groups."""

from __future__ import annotations

import asyncio

import strawberry

from resolvers.groups import groups
from schema.base.context import Info
from schema.base.nodes import page_info
from schema.groups.group_types import Group, GroupConnection, GroupEdge, group_from
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
        heads = await asyncio.gather(*(context.loaders.head(edge.node) for edge in page.edges))
        return GroupConnection(
            edges=[
                GroupEdge(node=group_from(head), cursor=edge.cursor)
                for edge, head in zip(page.edges, heads, strict=True)
                if head is not None
            ],
            page_info=page_info(page),
        )
