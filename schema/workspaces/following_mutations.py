"""Mutations of followed channels."""

from __future__ import annotations

import strawberry

from resolvers.following import channel_members, following, reading_all
from schema.base.context import Info
from schema.sessions.session_types import AttentionType
from schema.workspaces.channel_types import ChannelType, channel_from


@strawberry.type
class FollowingMutations:
    @strawberry.mutation(
        description="Following puts a channel into followedChannels, and its activity into workspaceEvents, from now "
        "on (everything so far is read). A PUBLIC channel can be read, written to and watched with channelEvents "
        "without following it. Unfollowing keeps the read position. In a PRIVATE channel, unfollowing leaves it."
    )
    async def follow_channel(self, info: Info, channel_id: strawberry.ID, follow: bool = True) -> ChannelType:
        context = info.context
        return channel_from(await following.follow_channel(context.app, context.viewer, channel_id, follow=follow))

    @strawberry.mutation(
        description="Marks every followed channel of the workspace (or category) as read: one change, one event."
    )
    async def mark_channels_read(
        self, info: Info, workspace_id: strawberry.ID, category_id: strawberry.ID | None = None
    ) -> AttentionType:
        context = info.context
        attention = await reading_all.mark_channels_read(context.app, context.viewer, workspace_id, category_id)
        return AttentionType(record=attention)

    @strawberry.mutation(
        description="A PRIVATE channel: INVITE_MEMBERS; adds them and lets them follow it. A PUBLIC channel: lets "
        "members of the workspace follow it. At most 1,000 users."
    )
    async def add_to_channel(self, info: Info, channel_id: strawberry.ID, user_ids: list[strawberry.ID]) -> ChannelType:
        context = info.context
        return channel_from(await channel_members.add_to_channel(context.app, context.viewer, channel_id, user_ids))

    @strawberry.mutation(
        description="PRIVATE only. Ends their membership interval; live events to them end before this is answered."
    )
    async def remove_from_channel(self, info: Info, channel_id: strawberry.ID, user_id: strawberry.ID) -> ChannelType:
        context = info.context
        return channel_from(await channel_members.remove_from_channel(context.app, context.viewer, channel_id, user_id))
