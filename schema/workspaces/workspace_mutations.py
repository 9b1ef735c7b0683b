"""Mutations that create, change, join and leave workspaces."""

from __future__ import annotations

import strawberry

from resolvers.workspaces import workspace_changes, workspaces
from resolvers.workspaces.membership import invites, joining, membership_changes
from resolvers.workspaces.workspace_changes import ProfileUpdate
from resolvers.workspaces.workspaces import NewWorkspace
from schema.base.context import Info
from schema.base.scalars import JSON, DateTime
from schema.workspaces.member_types import WorkspaceMember
from schema.workspaces.workspace_types import InviteType, WorkspacePlan, WorkspaceType, workspace_from


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


@strawberry.input
class UpdateWorkspaceInput:
    name: str | None = None
    icon_url: str | None = strawberry.UNSET
    is_open: bool | None = None
    plan: WorkspacePlan | None = None
    retention_days: int | None = None
    metadata: JSON | None = None

    def to_update(self) -> ProfileUpdate:
        """Return the input as the change of a workspace."""
        return ProfileUpdate(
            name=self.name,
            icon_url=None if self.icon_url is strawberry.UNSET else self.icon_url,
            sets_icon=self.icon_url is not strawberry.UNSET,
            is_open=self.is_open,
            plan=None if self.plan is None else self.plan.value,
            retention_days=self.retention_days,
            metadata=self.metadata,
        )


@strawberry.type
class WorkspaceMutations:
    @strawberry.mutation(
        description="The creator is the owner. domain: unique in the deployment, [a-z0-9-]{3,32}. At most 100 "
        "workspaces per user, configurable (LIMIT_REACHED)."
    )
    async def create_workspace(self, info: Info, input: CreateWorkspaceInput) -> WorkspaceType:
        context = info.context
        created = await workspaces.create_workspace(context.app, context.viewer, input.to_new_workspace())
        return workspace_from(created.info, created.rev)

    @strawberry.mutation(description="MANAGE_WORKSPACE. plan: role service only.")
    async def update_workspace(
        self, info: Info, workspace_id: strawberry.ID, input: UpdateWorkspaceInput
    ) -> WorkspaceType:
        caller = info.context.caller
        assert caller is not None
        app, update = info.context.app, input.to_update()
        return workspace_from(await workspace_changes.update_workspace(app, caller, workspace_id, update))

    @strawberry.mutation(
        description="Owner only. Its channels are NOT_FOUND at once; stored messages and files are removed in the "
        "background."
    )
    async def delete_workspace(self, info: Info, workspace_id: strawberry.ID) -> bool:
        await workspace_changes.delete_workspace(info.context.app, info.context.viewer, workspace_id)
        return True

    @strawberry.mutation
    async def transfer_workspace(
        self, info: Info, workspace_id: strawberry.ID, user_id: strawberry.ID
    ) -> WorkspaceType:
        app, viewer = info.context.app, info.context.viewer
        return workspace_from(await workspace_changes.transfer_workspace(app, viewer, workspace_id, user_id))

    @strawberry.mutation(
        description="With an invitation code, or without one if the workspace is open. A banned user: BANNED. Whoever "
        "joins follows the default channels, read up to now."
    )
    async def join_workspace(
        self, info: Info, workspace_id: strawberry.ID | None = None, code: str | None = None
    ) -> WorkspaceType:
        context = info.context
        return workspace_from(await joining.join_workspace(context.app, context.viewer, workspace_id, code))

    @strawberry.mutation(description="Anyone but the owner (OWNER_CANNOT_LEAVE).")
    async def leave_workspace(self, info: Info, workspace_id: strawberry.ID) -> bool:
        await membership_changes.leave_workspace(info.context.app, info.context.viewer, workspace_id)
        return True

    @strawberry.mutation(
        description="CHANGE_NICKNAME for oneself, MANAGE_NICKNAMES for members below. 1 to 32 characters; null removes "
        "it."
    )
    async def set_nickname(
        self,
        info: Info,
        workspace_id: strawberry.ID,
        user_id: strawberry.ID | None = None,
        nickname: str | None = None,
    ) -> WorkspaceMember:
        app, viewer = info.context.app, info.context.viewer
        member = await membership_changes.set_nickname(app, viewer, workspace_id, user_id, nickname)
        return WorkspaceMember(record=member)

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
