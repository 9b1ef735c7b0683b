"""Queries for workspaces and invitations."""

from __future__ import annotations

import strawberry

from resolvers.workspaces import workspaces
from resolvers.workspaces.membership import invites
from schema.base.context import Info
from schema.workspaces.workspace_types import InvitePreview, WorkspaceConnection, WorkspaceType, workspace_connection


@strawberry.type
class WorkspaceQueries:
    @strawberry.field
    async def workspace(self, info: Info, id: strawberry.ID) -> WorkspaceType | None:
        return await WorkspaceType.find(info.context, id)

    @strawberry.field
    async def my_workspaces(self, info: Info, first: int | None = 50, after: str | None = None) -> WorkspaceConnection:
        context = info.context
        return workspace_connection(await workspaces.list_mine(context.app, context.viewer, first, after))

    @strawberry.field(description="Workspaces anyone may join without an invitation, by member count.")
    async def open_workspaces(
        self, info: Info, query: str | None = None, first: int | None = 20, after: str | None = None
    ) -> WorkspaceConnection:
        # Only callers with a token.
        _ = info.context.viewer
        return workspace_connection(await workspaces.list_open(info.context.app, query, first, after))

    @strawberry.field(description="What an invitation leads to, before joining.")
    async def invite(self, info: Info, code: str) -> InvitePreview | None:
        preview = await invites.find_preview(info.context.app, info.context.viewer, code)
        return InvitePreview(record=preview) if preview is not None else None
