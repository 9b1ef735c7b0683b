"""Lists the members of workspaces."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_text
from resolvers.base.errors import InvalidInput
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.users.people import check_query
from resolvers.workspaces.access import WorkspaceAccess
from store.workspaces.policy import MemberFacts


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
        online: Online members first. Not supported yet: true raises InvalidInput.
    """
    if online:
        raise InvalidInput("online: true is not supported yet: list members by name", field="online")
    size = check_page_size(first, "first")
    wanted = check_query(query) if query is not None else None
    position = decode_page_text("m", after, "after")
    if access is None or access.facts is None:
        return Page([], has_next=False, has_previous=False)
    roles = {str(id): id for id in access.policy.roles}
    if role is not None and role not in roles:
        return Page([], has_next=False, has_previous=False)
    # Every member has the role of everyone.
    needed = None if role is None or role == access.policy.everyone.id else roles[role]
    found = await app.store.member_search.list(access.info.id, wanted, needed, position, size)
    edges = [Edge(member.facts, ("m", member.position)) for member in found.found]
    return Page(edges, has_next=found.has_more, has_previous=position is not None)
