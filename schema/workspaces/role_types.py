"""The GraphQL types of roles, and of reasons for permissions."""

from __future__ import annotations

from enum import Enum

import strawberry

from resolvers.workspaces.access import find_access
from schema.base.context import Context, Info
from schema.base.nodes import Node
from schema.compiler import reads, then
from schema.workspaces.permission_types import PermissionType, list_permissions
from store.base.workspace_ids import RoleId, WorkspaceId, workspace_of
from store.workspaces import rights
from store.workspaces.policy import Policy, Role
from store.workspaces.rights import PermissionReason


@strawberry.type(
    name="Role",
    description="permissionBits: the same permissions as a bit field in decimal; bit n is the n-th value of "
    "Permission, counted from 0.",
)
class RoleType(Node):
    record: strawberry.Private[Role]
    workspace: strawberry.Private[WorkspaceId]
    is_everyone: strawberry.Private[bool]
    id: strawberry.ID = reads("record.id")
    name: str = reads("record.name")
    position: int = reads("record.position")
    color: str | None = reads("record.color")
    is_mentionable: bool = reads("record.is_mentionable")
    is_hoisted: bool = reads("record.is_hoisted", description="Members with this role are listed apart.")

    @classmethod
    async def find(cls, context: Context, role: str) -> RoleType | None:
        """Return a role, or None if the viewer is not a member of its workspace."""
        workspace = workspace_of(role, "r")
        access = await find_access(context.app, context.viewer, workspace) if workspace is not None else None
        if access is None or access.facts is None or role not in access.policy.roles:
            return None
        return role_from(access.policy, RoleId(role))

    @strawberry.field
    def permissions(self) -> list[PermissionType]:
        return list_permissions(self.record.permissions)

    @strawberry.field
    def permission_bits(self) -> str:
        return str(int(self.record.permissions))

    @strawberry.field
    def member_count(self, info: Info) -> int:
        if not self.is_everyone:
            return self.record.member_count
        return then(
            info.context.loaders.workspaces.find(self.workspace),
            lambda access: access.info.member_count if access is not None else 0,
        )


def role_from(policy: Policy, role: RoleId) -> RoleType:
    """Return the GraphQL object of a role."""
    is_everyone = role == policy.everyone.id
    return RoleType(record=policy.roles[role], workspace=policy.workspace, is_everyone=is_everyone)


def list_roles(policy: Policy, roles: frozenset[RoleId]) -> list[RoleType]:
    """Return those of some roles that exist, highest first."""
    found = sorted((policy.roles[id] for id in roles & policy.roles.keys()), key=lambda role: -role.position)
    return [role_from(policy, role.id) for role in found]


@strawberry.enum(name="PermissionRule")
class PermissionRuleType(Enum):
    OWNER = rights.PermissionRule.OWNER
    ADMINISTRATOR = rights.PermissionRule.ADMINISTRATOR
    ROLE = rights.PermissionRule.ROLE
    EVERYONE_OVERWRITE = rights.PermissionRule.EVERYONE_OVERWRITE
    ROLE_OVERWRITE = rights.PermissionRule.ROLE_OVERWRITE
    MEMBER_OVERWRITE = rights.PermissionRule.MEMBER_OVERWRITE
    TIMED_OUT = rights.PermissionRule.TIMED_OUT
    NOT_VISIBLE = rights.PermissionRule.NOT_VISIBLE
    ARCHIVED = rights.PermissionRule.ARCHIVED
    IMPLIED = rights.PermissionRule.IMPLIED
    DEFAULT = rights.PermissionRule.DEFAULT


@strawberry.type(name="PermissionReason")
class PermissionReasonType:
    record: strawberry.Private[PermissionReason]
    permission: PermissionType = reads("record.permission")
    allowed: bool = reads("record.allowed")
    decided_by: PermissionRuleType = reads("record.decided_by")
    role_id: strawberry.ID | None = reads("record.role")
