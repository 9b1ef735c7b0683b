"""Mutations of followed channels."""

from __future__ import annotations

import strawberry

from resolvers.following import following
from schema.base.context import Info
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
