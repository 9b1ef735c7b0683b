"""Positions of channels in their category, and of categories: 0, 1, 2, … in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from store.base.ids import ConversationId
from store.base.workspace_ids import CategoryId
from store.workspaces.policy import Channel, ChannelCategory

Channels = dict[ConversationId, Channel]
Categories = dict[CategoryId, ChannelCategory]


def place_channel(channels: Mapping[ConversationId, Channel], channel: Channel, position: int | None) -> Channels:
    """Return all channels after one of them is put at a position of its category; the others there shift.

    position: None or a large one: at the end.
    """
    siblings = [c for c in channels.values() if c.category == channel.category and c.id != channel.id]
    siblings.sort(key=lambda c: (c.position, c.id))
    at = len(siblings) if position is None else min(position, len(siblings))
    siblings.insert(at, channel)
    moved = {c.id: replace(c, position=i) for i, c in enumerate(siblings)}
    return {**channels, **moved}


def place_category(
    categories: Mapping[CategoryId, ChannelCategory], category: ChannelCategory, position: int | None
) -> Categories:
    """Return all categories after one of them is put at a position; the others shift. See `place_channel`."""
    others = sorted((c for c in categories.values() if c.id != category.id), key=lambda c: (c.position, c.id))
    at = len(others) if position is None else min(position, len(others))
    others.insert(at, category)
    return {c.id: replace(c, position=i) for i, c in enumerate(others)}


def remove_category(channels: Mapping[ConversationId, Channel], category: ChannelCategory) -> Channels:
    """Return all channels after their category is removed: they follow those without one, with the rights they had."""
    inside = sorted((c for c in channels.values() if c.category == category.id), key=lambda c: (c.position, c.id))
    after = dict(channels)
    for channel in inside:
        freed = replace(channel, category=None)
        if channel.inherits_permissions and len(category.overwrites):
            freed = replace(freed, inherits_permissions=False, overwrites=category.overwrites)
        after = place_channel(after, freed, None)
    return after
