"""The GraphQL type of channel categories."""

from __future__ import annotations

import strawberry

from resolvers.workspaces.access import find_access
from resolvers.workspaces.channels import list_categories
from schema.base.context import Context
from schema.base.list_sizes import holds
from schema.base.nodes import Node
from schema.compiler import reads
from schema.workspaces.permission_types import PermissionOverwrite, list_overwrites
from store.base.workspace_ids import WorkspaceId, workspace_of
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import ChannelCategory, Policy
from store.workspaces.rights import rights_in_workspace


@strawberry.type(name="ChannelCategory")
class ChannelCategoryType(Node):
    record: strawberry.Private[ChannelCategory]
    workspace: strawberry.Private[WorkspaceId]
    shows_overwrites: strawberry.Private[bool]
    id: strawberry.ID = reads("record.id")
    workspace_id: strawberry.ID = reads("workspace")
    name: str = reads("record.name")
    position: int = reads("record.position")

    @strawberry.field(metadata=holds(20))
    def overwrites(self) -> list[PermissionOverwrite]:
        return list_overwrites(self.record.overwrites) if self.shows_overwrites else []


async def find_category(context: Context, category: str) -> ChannelCategoryType | None:
    """Return a category, or None if the viewer can't see it."""
    workspace = workspace_of(category, "k")
    access = await find_access(context.app, context.viewer, workspace) if workspace is not None else None
    if access is None:
        return None
    rights = access.rights(context.app.store.clock.now_ms())
    found = [each for each in await list_categories(context.app, access) if each.id == category]
    return category_from(access.policy, found[0], rights) if found else None


async def load_category(context: Context, policy: Policy, category: ChannelCategory) -> ChannelCategoryType:
    """Return the GraphQL object of a category that the viewer has changed."""
    store = context.app.store
    facts = await store.policies.find_member(policy.workspace, context.viewer, policy.version)
    rights = rights_in_workspace(policy, facts, store.clock.now_ms()) if facts is not None else NOTHING
    return category_from(policy, category, rights)


def category_from(policy: Policy, category: ChannelCategory, rights: Permission) -> ChannelCategoryType:
    """Return the GraphQL object of a category. rights: those of the viewer in the workspace."""
    return ChannelCategoryType(
        record=category, workspace=policy.workspace, shows_overwrites=Permission.MANAGE_ROLES in rights
    )
