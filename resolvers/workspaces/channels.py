"""Channels and categories as a viewer sees them."""

from __future__ import annotations

from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page, is_number
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.conversations.access import Access, access_conversations
from resolvers.workspaces.access import WorkspaceAccess
from store.base.ids import ConversationId
from store.channels.channel_rights import ChannelRights
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelCategory
from store.workspaces.rights import rights_in_category

CURSOR = "wc"


class _Order(NamedTuple):
    """The place of a channel in the list of its workspace. Channels without a category come first."""

    category: int
    position: int
    channel: ConversationId


async def list_channels(app: Confab, access: WorkspaceAccess, first: int | None, after: str | None) -> Page[Access]:
    """Return a page of the channels that a member can see, by category and position. Empty for others.

    Raises InvalidInput.
    """
    size = check_page_size(first, "first")
    start = decode_order(after) if after is not None else None
    if access.facts is None:
        return Page([], has_next=False, has_previous=False)
    visible = await app.store.channel_rights.list_visible(access.policy, access.facts)
    ordered = sorted(order_of(rights) for rights in visible)
    waiting = [place for place in ordered if start is None or place > start]
    part = waiting[:size]
    accesses = await access_conversations(app, access.facts.user, [place.channel for place in part])
    edges = [
        Edge(found, (CURSOR, *place))
        for place, found in zip(part, accesses, strict=True)
        # It may have been deleted meanwhile.
        if found is not None
    ]
    return Page(edges, has_next=len(waiting) > size, has_previous=start is not None)


def order_of(rights: ChannelRights) -> _Order:
    """Return the place of a channel in the list of its workspace."""
    category = rights.policy.categories.get(rights.channel.category) if rights.channel.category is not None else None
    return _Order(category.position + 1 if category is not None else 0, rights.channel.position, rights.channel.id)


def decode_order(after: str) -> _Order:
    """Return the place in a cursor. Raises InvalidInput."""
    parts = decode_page(CURSOR, after, "after")
    if len(parts) != 3 or not all(map(is_number, parts[:2])):
        raise InvalidInput("after must be a cursor of this list", field="after")
    return _Order(int(parts[0]), int(parts[1]), ConversationId(parts[2]))


async def list_categories(app: Confab, access: WorkspaceAccess) -> list[ChannelCategory]:
    """Return the categories that a member can see, by position: a channel inside could be seen, or one is seen."""
    if access.facts is None:
        return []
    visible = await app.store.channel_rights.list_visible(access.policy, access.facts)
    shown = {rights.channel.category for rights in visible}
    categories = sorted(access.policy.categories.values(), key=lambda category: (category.position, category.id))
    return [category for category in categories if category.id in shown or _may_see(app, access, category)]


def _may_see(app: Confab, access: WorkspaceAccess, category: ChannelCategory) -> bool:
    """Return whether a member could see a channel that has the overwrites of a category."""
    assert access.facts is not None
    rights = rights_in_category(access.policy, access.facts, category, app.store.clock.now_ms())
    return Permission.VIEW_CHANNEL in rights


async def find_write_time(app: Confab, rights: ChannelRights) -> int | None:
    """Return the time (ms) from which a user may write again in a channel with slow mode. None: now."""
    if not rights.slow_mode_ms:
        return None
    last_sent_ms = await app.store.outbox.find_last_sent(rights.channel.id, rights.facts.user)
    if last_sent_ms is None or last_sent_ms + rights.slow_mode_ms <= app.store.clock.now_ms():
        return None
    return last_sent_ms + rights.slow_mode_ms
