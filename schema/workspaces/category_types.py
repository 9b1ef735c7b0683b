"""The GraphQL type of channel categories."""

from __future__ import annotations

import strawberry

from schema.base.list_sizes import holds
from schema.base.nodes import Node
from schema.compiler import reads
from schema.workspaces.permission_types import PermissionOverwrite, list_overwrites
from store.base.workspace_ids import WorkspaceId
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelCategory, Policy


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


def category_from(policy: Policy, category: ChannelCategory, rights: Permission) -> ChannelCategoryType:
    """Return the GraphQL object of a category. rights: those of the viewer in the workspace."""
    return ChannelCategoryType(
        record=category, workspace=policy.workspace, shows_overwrites=Permission.MANAGE_ROLES in rights
    )
