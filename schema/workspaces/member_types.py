"""The GraphQL types of members of workspaces."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import strawberry

from resolvers.base.pages import Edge, Page
from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.nodes import PageInfo
from schema.base.scalars import DateTime
from schema.compiler import prefetched_by, reads, then
from schema.users.user_types import UserType, load_user
from schema.workspaces.role_types import RoleType, list_roles
from store.workspaces.policy import MemberFacts


def _prefetch_users(context: Context, members: Sequence[WorkspaceMember]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([member.record.user for member in members])


@strawberry.type(
    description="timedOutUntil: until then the member has no permissions but VIEW_CHANNEL and READ_HISTORY. It ends by "
    "itself."
)
class WorkspaceMember:
    record: strawberry.Private[MemberFacts]
    nickname: str | None = reads("record.nickname")
    joined_at: DateTime = reads("record.joined_at_ms")

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.record.user)

    @strawberry.field(metadata=holds(5))
    def roles(self, info: Info) -> list[RoleType]:
        return then(
            info.context.loaders.workspaces.find(self.record.workspace),
            lambda access: list_roles(access.policy, self.record.roles) if access is not None else [],
        )

    @strawberry.field
    def timed_out_until(self, info: Info) -> DateTime | None:
        until_ms = self.record.timed_out_until_ms
        return DateTime(until_ms) if until_ms > info.context.app.store.clock.now_ms() else None


@strawberry.type
class WorkspaceMemberEdge:
    edge: strawberry.Private[Edge[MemberFacts]]
    node: WorkspaceMember
    cursor: str = reads("edge.cursor")


@strawberry.type
class WorkspaceMemberConnection:
    edges: list[WorkspaceMemberEdge]
    page_info: PageInfo


def member_connection(page: Page[MemberFacts]) -> WorkspaceMemberConnection:
    """Return the Relay connection of a page of members."""
    return WorkspaceMemberConnection(
        edges=[WorkspaceMemberEdge(edge=edge, node=WorkspaceMember(record=edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )
