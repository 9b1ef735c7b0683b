"""Mutations that create and join workspaces."""

from __future__ import annotations

import strawberry

from resolvers.workspaces import invites, joining, workspaces
from resolvers.workspaces.workspaces import NewWorkspace
from schema.base.context import Info
from schema.base.scalars import JSON, DateTime
from schema.workspaces.workspace_types import InviteType, WorkspaceType, workspace_from


@strawberry.input
class CreateWorkspaceInput:
    name: str
    domain: str | None = None
    icon_url: str | None = None
    is_open: bool | None = False
    metadata: JSON | None = None
    idempotency_key: str | None = None

    def to_new_workspace(self) -> NewWorkspace:
        """Return the input with its defaults filled in."""
        return NewWorkspace(
            name=self.name,
            domain=self.domain,
            icon_url=self.icon_url,
            is_open=bool(self.is_open),
            metadata=self.metadata,
            key=self.idempotency_key,
        )


@strawberry.type
class WorkspaceMutations:
    @strawberry.mutation(
        description="The creator is the owner. domain: unique in the deployment, [a-z0-9-]{3,32}. At most 100 "
        "workspaces per user, configurable (LIMIT_REACHED)."
    )
    async def create_workspace(self, info: Info, input: CreateWorkspaceInput) -> WorkspaceType:
        context = info.context
        return workspace_from(await workspaces.create_workspace(context.app, context.viewer, input.to_new_workspace()))

    @strawberry.mutation(
        description="With an invitation code, or without one if the workspace is open. A banned user: BANNED. Whoever "
        "joins follows the default channels, read up to now."
    )
    async def join_workspace(
        self, info: Info, workspace_id: strawberry.ID | None = None, code: str | None = None
    ) -> WorkspaceType:
        context = info.context
        return workspace_from(await joining.join_workspace(context.app, context.viewer, workspace_id, code))

    @strawberry.mutation(
        description="Role service or admin: adds users without an invitation, 1,000 at most; members are skipped."
    )
    async def add_to_workspace(
        self, info: Info, workspace_id: strawberry.ID, user_ids: list[strawberry.ID]
    ) -> WorkspaceType:
        caller = info.context.caller
        assert caller is not None
        return workspace_from(await joining.add_to_workspace(info.context.app, caller, workspace_id, user_ids))

    @strawberry.mutation(description="CREATE_INVITES. maxUses 0: unlimited. At most 1,000 codes per workspace.")
    async def create_invite(
        self, info: Info, workspace_id: strawberry.ID, expires_at: DateTime | None = None, max_uses: int | None = 0
    ) -> InviteType:
        context = info.context
        invite = await invites.create_invite(context.app, context.viewer, workspace_id, expires_at, max_uses or 0)
        return InviteType(record=invite)

    @strawberry.mutation
    async def revoke_invite(self, info: Info, code: str) -> bool:
        await invites.revoke_invite(info.context.app, info.context.viewer, code)
        return True
