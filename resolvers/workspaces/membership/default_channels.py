"""Default channels: users who join a workspace follow them, with everything so far read."""

from __future__ import annotations

from resolvers.base.app import Confab
from store.channels import channel_follows
from store.channels.follow_rows import ChannelPlace
from store.workspaces.policy import ChannelKind, Policy


async def list_default_channels(app: Confab, policy: Policy) -> list[ChannelPlace]:
    """Return the channels that new members follow, at most MAX_FOLLOWED. One round trip to Redis if there are any."""
    channels = sorted(
        (
            channel
            for channel in policy.channels.values()
            if channel.is_default and not channel.is_archived and channel.kind is ChannelKind.PUBLIC
        ),
        key=lambda channel: channel.position,
    )[: channel_follows.MAX_FOLLOWED]
    heads = await app.store.conversations.find_many([channel.id for channel in channels]) if channels else {}
    return [ChannelPlace.of(heads[channel.id]) for channel in channels if channel.id in heads]
