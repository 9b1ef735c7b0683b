"""Queries of channels."""

from __future__ import annotations

import strawberry

from schema.base.context import Info
from schema.workspaces.channel_types import ChannelType
from store.base.ids import ConversationId, ConversationKind, kind_of


@strawberry.type
class ChannelQueries:
    @strawberry.field
    async def channel(self, info: Info, id: strawberry.ID) -> ChannelType | None:
        if kind_of(id) is not ConversationKind.CHANNEL:
            return None
        return await ChannelType.find(info.context, ConversationId(id))
