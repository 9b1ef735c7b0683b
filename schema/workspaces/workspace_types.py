"""The GraphQL types of workspaces, their members and invitations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import Any

import strawberry

from resolvers.base.pages import Edge, Page
from resolvers.workspaces.access import WorkspaceAccess, find_access, no_workspace
from resolvers.workspaces.channels import list_categories, list_channels
from resolvers.workspaces.membership.invites import Preview
from resolvers.workspaces.membership.members import count_online, list_members
from resolvers.workspaces.revs import read_with_rev
from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import JSON, DateTime, Timestamp
from schema.compiler import reads, then
from schema.users.user_types import UserType, load_user
from schema.workspaces.category_types import ChannelCategoryType, category_from
from schema.workspaces.channel_types import ChannelConnection, channel_connection
from schema.workspaces.member_types import WorkspaceMember, WorkspaceMemberConnection, member_connection
from schema.workspaces.permission_types import PermissionType, list_permissions
from schema.workspaces.role_types import RoleType, list_roles, role_from
from store.base.workspace_ids import RoleId, WorkspaceId, is_workspace_id
from store.workspaces.invite_store import InviteRecord
from store.workspaces.policy import Policy
from store.workspaces.workspace_info import Plan, WorkspaceInfo


@strawberry.enum
class WorkspacePlan(Enum):
    FREE = Plan.FREE
    PRO = Plan.PRO
    BUSINESS = Plan.BUSINESS
    ENTERPRISE = Plan.ENTERPRISE


@strawberry.type(name="Workspace")
class WorkspaceType(Node):
    record: strawberry.Private[WorkspaceInfo]
    known_rev: strawberry.Private[int | None] = None
    """A position that the state includes; None: not known."""
    id: strawberry.ID = reads("record.id")
    name: str = reads("record.name")
    domain: str | None = reads("record.domain")
    icon_url: str | None = reads("record.icon_url")
    plan: WorkspacePlan = reads("record.plan")
    is_open: bool = reads("record.is_open", description="Anyone may join without an invitation.")
    member_count: int = reads("record.member_count")
    retention_days: int | None = reads(
        "record.retention_days",
        description="Messages older than this are deleted; null: kept. In updateWorkspace 0 means kept; 1 to 36500 "
        "else.",
    )
    created_at: DateTime = reads("record.created_at_ms")

    @classmethod
    def load(cls, context: Context, workspace: WorkspaceId) -> Any:
        """Return a Deferred of a workspace. Does not check whether the viewer sees it."""
        return then(context.loaders.workspaces.find(workspace), lambda access: workspace_from(access.info))

    @classmethod
    def load_roles(cls, context: Context, workspace: WorkspaceId, roles: Sequence[RoleId]) -> Any:
        """Return those roles that exist, in the given order, or a Deferred of them. Does not check access."""

        def roles_in(policy: Policy | None) -> list[RoleType]:
            return [role_from(policy, role) for role in roles if role in policy.roles] if policy is not None else []

        # Without the viewer, so that subscribers share the result.
        policies = context.app.store.policies
        known = policies.known(workspace)
        return roles_in(known) if known is not None else then(asyncio.ensure_future(policies.find(workspace)), roles_in)

    @classmethod
    async def find(cls, context: Context, workspace: str) -> WorkspaceType | None:
        """Return a workspace, or None if the viewer does not see it."""
        if not is_workspace_id(workspace):
            return None
        app, viewer = context.app, context.viewer
        found = await read_with_rev(app, WorkspaceId(workspace), lambda: find_access(app, viewer, workspace))
        return workspace_from(found[0].info, found[1]) if found is not None else None

    @strawberry.field
    def rev(self, info: Info) -> Timestamp:
        """A position on the workspace's clock that includes all of this."""
        context, workspace = info.context, self.record.id

        def rev_of(access: WorkspaceAccess | None) -> Any:
            if access is None or access.facts is None:
                # The clock would reveal when members write there.
                return Timestamp(self.record.created_at_ms)
            return context.loaders.revs.find(workspace) if self.known_rev is None else Timestamp(self.known_rev)

        return then(context.loaders.workspaces.find(workspace), rev_of)

    @strawberry.field
    def owner(self, info: Info) -> UserType:
        return load_user(info.context, self.record.owner)

    @strawberry.field
    def metadata(self, info: Info) -> JSON | None:
        return self._if_member(info, self.record.metadata)

    @strawberry.field(description="Approximate, at most 15 s old, without INVISIBLE members.")
    async def online_count(self, info: Info) -> int:
        context = info.context
        access = await context.loaders.workspaces.load(self.record.id)
        if access is None or access.facts is None:
            return 0
        return await count_online(context.app, self.record.id, access.facts.user)

    @strawberry.field(description="Null to non-members.")
    def viewer(self, info: Info) -> WorkspaceMember | None:
        return then(
            info.context.loaders.workspaces.find(self.record.id),
            lambda access: WorkspaceMember(record=access.facts) if access is not None and access.facts else None,
        )

    @strawberry.field
    def viewer_permissions(self, info: Info) -> list[PermissionType]:
        now_ms = info.context.app.store.clock.now_ms()
        return then(
            info.context.loaders.workspaces.find(self.record.id),
            lambda access: list_permissions(access.rights(now_ms)) if access is not None else [],
        )

    @strawberry.field(
        description="Highest first; the last is the role of everyone (r_ followed by the workspace's own part of the "
        "id).",
        metadata=holds(20),
    )
    def roles(self, info: Info) -> list[RoleType]:
        return then(info.context.loaders.workspaces.find(self.record.id), _roles_of)

    @strawberry.field(
        description="By name. query: prefix of name or nickname. online: those online first, at most 1,000 of them, "
        "then the others by name."
    )
    async def members(
        self,
        info: Info,
        first: int | None = 50,
        after: str | None = None,
        query: str | None = None,
        role_id: strawberry.ID | None = None,
        online: bool | None = False,
    ) -> WorkspaceMemberConnection:
        context = info.context
        access = await context.loaders.workspaces.load(self.record.id)
        found = await list_members(context.app, access, first, after, query, role_id, online=bool(online))
        return member_connection(found)

    @strawberry.field(metadata=holds(20))
    async def categories(self, info: Info) -> list[ChannelCategoryType]:
        context = info.context
        access = await context.loaders.workspaces.load(self.record.id)
        if access is None:
            return []
        rights = access.rights(context.app.store.clock.now_ms())
        found = await list_categories(context.app, access)
        return [category_from(access.policy, category, rights) for category in found]

    @strawberry.field(description="Those the caller can see, by category and position.")
    async def channels(self, info: Info, first: int | None = 100, after: str | None = None) -> ChannelConnection:
        context = info.context
        access = await context.loaders.workspaces.load(self.record.id)
        if access is None:
            raise no_workspace()
        return channel_connection(await list_channels(context.app, access, first, after))

    def _if_member(self, info: Info, value: Any) -> Any:
        """Return a value, or a Deferred of it, that is null to viewers who are not members."""
        return then(
            info.context.loaders.workspaces.find(self.record.id),
            lambda access: value if access is not None and access.facts is not None else None,
        )


def workspace_from(info: WorkspaceInfo, rev: int | None = None) -> WorkspaceType:
    """Return the GraphQL object of a workspace.

    `rev`: a position on its clock before `info` was read, if it is known.
    """
    return WorkspaceType(record=info, known_rev=rev)


def _roles_of(access: WorkspaceAccess | None) -> list[RoleType]:
    """Return all roles; none to viewers who are not members."""
    if access is None or access.facts is None:
        return []
    return list_roles(access.policy, frozenset(access.policy.roles))


@strawberry.type
class WorkspaceEdge:
    edge: strawberry.Private[Edge[WorkspaceInfo]]
    node: WorkspaceType
    cursor: str = reads("edge.cursor")


@strawberry.type
class WorkspaceConnection:
    edges: list[WorkspaceEdge]
    page_info: PageInfo


def workspace_connection(page: Page[WorkspaceInfo]) -> WorkspaceConnection:
    """Return the Relay connection of a page of workspaces."""
    return WorkspaceConnection(
        edges=[WorkspaceEdge(edge=edge, node=workspace_from(edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )


@strawberry.type(name="Invite")
class InviteType:
    record: strawberry.Private[InviteRecord]
    workspace_id: strawberry.ID = reads("record.code.workspace")
    expires_at: DateTime | None = reads("record.expires_at_ms")
    uses: int = reads("record.uses")
    max_uses: int = reads("record.max_uses")

    @strawberry.field
    def code(self) -> str:
        return str(self.record.code)

    @strawberry.field
    def created_by(self, info: Info) -> UserType:
        return load_user(info.context, self.record.created_by)


@strawberry.type
class InvitePreview:
    record: strawberry.Private[Preview]
    workspace_id: strawberry.ID = reads("record.workspace.id")
    name: str = reads("record.workspace.name")
    icon_url: str | None = reads("record.workspace.icon_url")
    member_count: int = reads("record.workspace.member_count")
    expires_at: DateTime | None = reads("record.invite.expires_at_ms")
