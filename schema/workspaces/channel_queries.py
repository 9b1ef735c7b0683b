"""Queries of channels."""

from __future__ import annotations

import strawberry

from resolvers.following import synchronising
from resolvers.following.followed_channels import list_followed
from schema.base.context import Info
from schema.base.scalars import Cursor
from schema.workspaces.channel_types import (
    ChannelConnection,
    ChannelDelta,
    ChannelType,
    channel_delta,
    followed_connection,
)
from store.base.ids import ConversationId, ConversationKind, kind_of


@strawberry.type
class ChannelQueries:
    @strawberry.field
    async def channel(self, info: Info, id: strawberry.ID) -> ChannelType | None:
        if kind_of(id) is not ConversationKind.CHANNEL:
            return None
        return await ChannelType.find(info.context, ConversationId(id))

    @strawberry.field(
        description="Channels the caller follows, by category and position. unreadOnly: those with unread messages. At "
        "most 500 followed per workspace."
    )
    async def followed_channels(
        self,
        info: Info,
        workspace_id: strawberry.ID,
        unread_only: bool | None = False,
        first: int | None = 100,
        after: str | None = None,
    ) -> ChannelConnection:
        context = info.context
        page = await list_followed(
            context.app, context.viewer, workspace_id, first, after, unread_only=bool(unread_only)
        )
        return followed_connection(page)

    @strawberry.field(
        description="Followed channels in which something happened, or whose session changed, after the cursor. The "
        "same cursors as syncSessions. A channel may be returned again although it did not change: it is whole and "
        "overwrites. Cost: the number of channels that changed in the caller's workspaces, or the number they follow, "
        "whichever is less."
    )
    async def sync_channels(self, info: Info, since: Cursor | None = None, first: int | None = 100) -> ChannelDelta:
        context = info.context
        delta = await synchronising.sync_channels(context.app, context.viewer, since, first, context.page_sizes)
        return channel_delta(context, delta)
