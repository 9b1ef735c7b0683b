"""Lists the members of workspaces."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page, decode_page_text
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.users.people import check_query
from resolvers.workspaces.access import WorkspaceAccess
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.workspaces.policy import MemberFacts
from subscriptions.presence.online_users import MOST_LISTED

_ONLINE, _OTHERS = "1", "2"
"""The parts of the list with those who are online first."""


async def list_members(
    app: Confab,
    access: WorkspaceAccess | None,
    first: int | None,
    after: str | None,
    query: str | None,
    role: str | None,
    *,
    online: bool,
) -> Page[MemberFacts]:
    """Return a page of a workspace's members, by name. Empty for viewers who are not members. Raises InvalidInput.

    Args:
        app: The application.
        access: The viewer's access; None if the workspace is gone.
        first: Size of the page.
        after: A cursor of this list.
        query: The beginning of a word of the name or nickname, or of the id.
        role: Only members with this role; no members if the workspace has no such role.
        online: Those who are shown online first, at most 1,000 of them, then the others. Who is online may change
            between two pages; then a member may be on both, or on neither.
    """
    size = check_page_size(first, "first")
    wanted = check_query(query) if query is not None else None
    part, name = _decode_position(after, online=online)
    if access is None or access.facts is None:
        return Page([], has_next=False, has_previous=False)
    roles = {str(id): id for id in access.policy.roles}
    if role is not None and role not in roles:
        return Page([], has_next=False, has_previous=False)
    # Every member has the role of everyone.
    needed = None if role is None or role == access.policy.everyone.id else roles[role]
    search, workspace = app.store.member_search, access.info.id
    edges: list[Edge[MemberFacts]] = []
    first_ones = await list_shown_online(app, workspace, access.facts.user) if online else []
    if part == _ONLINE:
        among = await search.list_among(workspace, first_ones, wanted, name, size, needed)
        edges = [Edge(member.facts, ("o", _ONLINE, member.position)) for member in among.found]
        if among.has_more:
            return Page(edges, has_next=True, has_previous=after is not None)
        name = None
    # One more than the page needs shows whether others follow.
    wanted_size = size - len(edges)
    found = await search.list(workspace, wanted, needed, name, max(wanted_size, 1), without=first_ones)
    kind = ("o", _OTHERS) if online else ("m",)
    edges += [Edge(member.facts, (*kind, member.position)) for member in found.found[:wanted_size]]
    has_next = found.has_more or len(found.found) > wanted_size
    return Page(edges, has_next=has_next, has_previous=after is not None)


async def list_shown_online(app: Confab, workspace: WorkspaceId, viewer: UserId) -> list[UserId]:
    """Return up to 1,000 members who are shown online to a viewer, without those who have blocked the viewer."""
    listed = await app.online.list_first(workspace)
    blockers = await app.blocker_cache.find(viewer, listed)
    return [user for user in listed if user not in blockers]


async def count_online(app: Confab, workspace: WorkspaceId, viewer: UserId) -> int:
    """Return how many members are shown online to a viewer. At most 11 s old.

    In a workspace with more than 1,000 of them, those who have blocked the viewer count too.
    """
    listed = await app.online.list_first(workspace) if await app.blocker_cache.has_any(viewer) else None
    if listed is None or len(listed) >= MOST_LISTED:
        return await app.online.count(workspace)
    return len(set(listed) - (await app.blocker_cache.find(viewer, listed)).keys())


def _decode_position(after: str | None, *, online: bool) -> tuple[str, str | None]:
    """Return the part of the list and the name after which a page begins. Raises InvalidInput."""
    if not online:
        return _OTHERS, decode_page_text("m", after, "after")
    if after is None:
        return _ONLINE, None
    parts = decode_page("o", after, "after")
    if len(parts) != 2 or parts[0] not in (_ONLINE, _OTHERS):
        raise InvalidInput("after must be a cursor of this list", field="after")
    return parts[0], parts[1]
