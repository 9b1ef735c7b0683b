"""Bans and lifts bans: from a workspace, or from the whole deployment."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_text
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.moderation.ban_input import BanInput
from resolvers.moderation.deployment_bans import ban_from_deployment, unban_from_deployment
from resolvers.moderation.workspace_bans import ban_from_workspace, unban_from_workspace
from resolvers.users.callers import Caller
from resolvers.workspaces.access import access_scope
from store.base.ids import UserId
from store.moderation.ban import Ban
from store.workspaces.permissions import Permission

_CURSOR = "bans"


async def ban_user(app: Confab, caller: Caller, workspace: str | None, user: str, given: BanInput) -> Ban:
    """Ban a user: see `ban_from_workspace` and `ban_from_deployment`."""
    if workspace is None:
        return await ban_from_deployment(app, caller, user, given)
    return await ban_from_workspace(app, caller.user_id, workspace, user, given)


async def unban_user(app: Confab, caller: Caller, workspace: str | None, user: str) -> bool:
    """Lift a ban: see `unban_from_workspace` and `unban_from_deployment`."""
    if workspace is None:
        return await unban_from_deployment(app, caller, user)
    return await unban_from_workspace(app, caller.user_id, workspace, user)


async def list_bans(
    app: Confab, caller: Caller, workspace: str | None, first: int | None, after: str | None
) -> Page[Ban]:
    """Return a page of the bans in force, in the order of user ids.

    Needs BAN_MEMBERS, or role admin without a workspace. Raises InvalidInput, NotFound and Forbidden.
    """
    size = check_page_size(first, "first")
    start = decode_page_text(_CURSOR, after, "after")
    place = await access_scope(app, caller, workspace, Permission.BAN_MEMBERS)
    position = UserId(start) if start is not None else None
    # One more than the page needs shows whether others follow.
    found = await app.store.bans.list(place, position, size + 1, app.store.clock.now_ms())
    edges = [Edge(ban, (_CURSOR, ban.user)) for ban in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=after is not None)
