"""Reads of groups: single groups, a user's groups, and members. Changes are in `group_changes`."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_text
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.conversations.access import Access, access_conversation
from resolvers.users.people import SEARCH_UNITS, check_query
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.conversations.conversation import Member
from store.users.search_text import SearchQuery


async def find_group(app: Confab, viewer: UserId, group: str) -> Access | None:
    """Return a group that the viewer is or was a member of."""
    return await access_conversation(app, viewer, group) if kind_of(group) is ConversationKind.GROUP else None


async def list_groups(app: Confab, viewer: UserId, first: int | None, after: str | None) -> Page[ConversationId]:
    """Return a page of the groups that the viewer is a member of, in order of ids. Raises InvalidInput."""
    size = check_page_size(first, "first")
    start = decode_page_text("g", after, "after")
    groups = await app.store.sessions.list_groups(viewer)
    rest = [group for group in groups if start is None or group > start]
    edges = [Edge(group, ("g", group)) for group in rest[:size]]
    return Page(edges, has_next=len(rest) > size, has_previous=start is not None)


async def list_members(
    app: Confab, viewer: UserId, access: Access, first: int | None, after: str | None, query: str | None
) -> Page[Member] | None:
    """Return a page of a group's members. None for former members. Raises InvalidInput.

    Members are in order of user ids. With a query, only members whose name or id begins with it are returned, in order
    of names; RateLimited is raised if the viewer's work budget has too few units for the members.
    """
    size = check_page_size(first, "first")
    wanted = check_query(query) if query is not None else None
    if wanted is not None:
        return await _search_members(app, viewer, access, size, after, wanted)
    start = decode_page_text("u", after, "after")
    if not access.is_current:
        return None
    members = [m for m in await app.store.conversations.list_members(access.head.conversation) if m.is_current]
    rest = [member for member in members if start is None or member.user > start]
    edges = [Edge(member, ("u", member.user)) for member in rest[:size]]
    return Page(edges, has_next=len(rest) > size, has_previous=start is not None)


async def _search_members(
    app: Confab, viewer: UserId, access: Access, size: int, after: str | None, query: SearchQuery
) -> Page[Member] | None:
    position = decode_page_text("n", after, "after")
    if not access.is_current:
        return None
    store, group = app.store, access.head.conversation
    members = (await store.conversations.list_current_members([group])).get(group, ())
    app.work.take(viewer, SEARCH_UNITS * len(members))
    results = await store.user_search.find_among(members, query, position, size)
    people = [found.user.id for found in results.found]
    snapshot = await store.conversations.find_group_snapshot(group, people) if people else None
    records = snapshot.members if snapshot is not None else {}
    edges = [
        Edge(records[found.user.id], ("n", found.position))
        for found in results.found
        # Members may have left since the list was read.
        if found.user.id in records and records[found.user.id].is_current
    ]
    return Page(edges, has_next=results.has_more, has_previous=position is not None)
