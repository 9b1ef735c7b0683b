"""A viewer's access to workspaces: which ones they see, and which rights they have there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, NotFound
from resolvers.users.callers import Caller, check_is_admin
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import MemberFacts, Policy
from store.workspaces.rights import rights_in_workspace
from store.workspaces.workspace_info import WorkspaceInfo


@dataclass(frozen=True, slots=True)
class WorkspaceAccess:
    """A workspace that a viewer sees, with its policy. `facts`: of the viewer; None: not a member."""

    info: WorkspaceInfo
    policy: Policy
    facts: MemberFacts | None

    def rights(self, now_ms: int) -> Permission:
        """Return what the viewer may do in the workspace. Nothing for users who are not members."""
        return NOTHING if self.facts is None else rights_in_workspace(self.policy, self.facts, now_ms)


async def list_accesses(app: Confab, viewer: UserId, workspaces: Sequence[WorkspaceId]) -> list[WorkspaceAccess | None]:
    """Return workspaces, in the order of the ids; None for those that do not exist. Visible to the viewer or not."""
    infos = await app.store.workspaces.find_many(workspaces)

    async def find(workspace: WorkspaceId) -> WorkspaceAccess | None:
        info = infos.get(workspace)
        return await access_of_info(app, viewer, info) if info is not None else None

    return await asyncio.gather(*(find(workspace) for workspace in workspaces))


async def find_access(app: Confab, viewer: UserId, workspace: str) -> WorkspaceAccess | None:
    """Return a workspace that the viewer sees: as a member, or because it is open."""
    access = await _find(app, viewer, workspace)
    return access if access is not None and (access.facts is not None or access.info.is_open) else None


async def access_workspace(app: Confab, viewer: UserId, workspace: str, field: str = "workspaceId") -> WorkspaceAccess:
    """Return a workspace of which the viewer is a member. Raises NotFound."""
    access = await find_access(app, viewer, workspace)
    if access is None or access.facts is None:
        raise no_workspace(field)
    return access


async def access_any_workspace(
    app: Confab, viewer: UserId, workspace: str, field: str = "workspaceId"
) -> WorkspaceAccess:
    """Return a workspace whether or not the viewer is a member, for services and admins. Raises NotFound."""
    access = await _find(app, viewer, workspace)
    if access is None:
        raise no_workspace(field)
    return access


async def _find(app: Confab, viewer: UserId, workspace: str) -> WorkspaceAccess | None:
    info = await app.store.workspaces.find(WorkspaceId(workspace)) if is_workspace_id(workspace) else None
    return await access_of_info(app, viewer, info) if info is not None else None


async def access_of_info(app: Confab, viewer: UserId, info: WorkspaceInfo) -> WorkspaceAccess | None:
    """Return a viewer's access to a workspace, visible to the viewer or not; None: it was deleted meanwhile."""
    # The policy and the facts are at least as new as the profile.
    policies = app.store.policies
    policy = await policies.find(info.id, info.version)
    if policy is None:
        return None
    return WorkspaceAccess(info, policy, await policies.find_member(info.id, viewer, info.version))


async def access_scope(
    app: Confab, caller: Caller, workspace: str | None, permission: Permission
) -> WorkspaceId | None:
    """Return the workspace in which a caller has a permission; None: the whole deployment, which is for role admin.

    Raises Forbidden, and NotFound if the caller is not in the workspace.
    """
    if workspace is None:
        check_is_admin(caller)
        return None
    access = await access_workspace(app, caller.user_id, workspace)
    check_right(app, access, permission)
    return access.info.id


def check_right(app: Confab, access: WorkspaceAccess, permission: Permission) -> None:
    """Raise Forbidden unless the viewer has a right in the workspace."""
    if permission not in access.rights(app.store.clock.now_ms()):
        raise no_permission(permission)


def no_permission(permission: Permission) -> Forbidden:
    """Return the error for a member who lacks a permission."""
    return Forbidden(f"this needs the permission {permission.name}")


_PARTS = {"channelId": "channel", "categoryId": "category", "roleId": "role"}
"""Parts of workspaces, by the arguments that name them."""


def no_workspace(field: str = "workspaceId") -> NotFound:
    """Return the error for a workspace that does not exist, or that the caller does not see.

    field: the argument that names it, or names a part of it.
    """
    return NotFound(f"there is no such {_PARTS.get(field, 'workspace')}", field=field)
