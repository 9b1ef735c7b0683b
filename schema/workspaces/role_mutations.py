"""Mutations and queries of roles, overwrites and permissions."""

from __future__ import annotations

from functools import reduce
from operator import or_

import strawberry

from resolvers.workspaces.permissions import overwrites, roles
from resolvers.workspaces.permissions.overwrites import OverwriteTarget
from resolvers.workspaces.permissions.roles import RoleUpdate
from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.workspaces.member_types import WorkspaceMember
from schema.workspaces.permission_types import PermissionOverwrite, PermissionType, list_overwrites
from schema.workspaces.role_types import PermissionReasonType, RoleType, role_from
from store.workspaces.permissions import NOTHING, Permission


def _bits(permissions: list[PermissionType] | None) -> Permission:
    return reduce(or_, (permission.value for permission in permissions or ()), NOTHING)


@strawberry.input
class RoleInput:
    name: str | None = None
    position: int | None = None
    color: str | None = strawberry.UNSET
    permissions: list[PermissionType] | None = None
    is_mentionable: bool | None = None
    is_hoisted: bool | None = None

    def to_update(self) -> RoleUpdate:
        """Return the input as the values of a role."""
        return RoleUpdate(
            name=self.name,
            position=self.position,
            color=None if self.color is strawberry.UNSET else self.color,
            sets_color=self.color is not strawberry.UNSET,
            permissions=None if self.permissions is None else _bits(self.permissions),
            is_mentionable=self.is_mentionable,
            is_hoisted=self.is_hoisted,
        )


@strawberry.type
class RoleMutations:
    @strawberry.mutation(
        description="MANAGE_ROLES, only below the caller's own highest role, granting only what the caller has. At "
        "most 250 per workspace."
    )
    async def create_role(self, info: Info, workspace_id: strawberry.ID, input: RoleInput) -> RoleType:
        app, viewer = info.context.app, info.context.viewer
        return role_from(*await roles.create_role(app, viewer, workspace_id, input.to_update()))

    @strawberry.mutation
    async def update_role(self, info: Info, role_id: strawberry.ID, input: RoleInput) -> RoleType:
        app, viewer = info.context.app, info.context.viewer
        return role_from(*await roles.update_role(app, viewer, role_id, input.to_update()))

    @strawberry.mutation
    async def delete_role(self, info: Info, role_id: strawberry.ID) -> bool:
        await roles.delete_role(info.context.app, info.context.viewer, role_id)
        return True

    @strawberry.mutation(
        description="MANAGE_ROLES: roles below the caller's highest, of members below it. At most 100 per member."
    )
    async def set_member_roles(
        self, info: Info, workspace_id: strawberry.ID, user_id: strawberry.ID, role_ids: list[strawberry.ID]
    ) -> WorkspaceMember:
        app, viewer = info.context.app, info.context.viewer
        return WorkspaceMember(record=await roles.set_member_roles(app, viewer, workspace_id, user_id, role_ids))

    @strawberry.mutation(
        description="For a role or a user, on a channel or category. MANAGE_ROLES there; only permissions the caller "
        "has there. Neither allow nor deny: removes it. At most 200.",
        metadata=holds(20),
    )
    async def set_permission_overwrite(
        self,
        info: Info,
        channel_id: strawberry.ID | None = None,
        category_id: strawberry.ID | None = None,
        role_id: strawberry.ID | None = None,
        user_id: strawberry.ID | None = None,
        allow: list[PermissionType] = [],  # noqa: B006  # the schema's default; it is not changed
        deny: list[PermissionType] = [],  # noqa: B006
    ) -> list[PermissionOverwrite]:
        app, viewer = info.context.app, info.context.viewer
        target = OverwriteTarget(channel_id, category_id, role_id, user_id)
        return list_overwrites(await overwrites.set_overwrite(app, viewer, target, _bits(allow), _bits(deny)))


@strawberry.type
class PermissionQueries:
    @strawberry.field(
        description="What a member may do in a channel, and which rule decided each permission. About oneself, or with "
        "MANAGE_ROLES.",
        metadata=holds(33),
    )
    async def explain_permissions(
        self, info: Info, channel_id: strawberry.ID, user_id: strawberry.ID | None = None
    ) -> list[PermissionReasonType]:
        app, viewer = info.context.app, info.context.viewer
        reasons = await overwrites.explain_permissions(app, viewer, channel_id, user_id)
        return [PermissionReasonType(record=reason) for reason in reasons]
