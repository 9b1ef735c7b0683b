"""The GraphQL types of bans."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import strawberry

from resolvers.base.pages import Edge, Page
from schema.base.context import Context, Info
from schema.base.nodes import PageInfo
from schema.base.scalars import DateTime
from schema.compiler import prefetched_by, reads
from schema.users.user_types import UserType, load_user
from store.moderation.ban import Ban


def _prefetch_users(context: Context, bans: Sequence[BanType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([user for ban in bans for user in (ban.record.user, ban.record.by)])


@strawberry.type(name="Ban")
class BanType:
    record: strawberry.Private[Ban]
    reason: str | None = reads("record.reason")
    until: DateTime | None = reads("record.until_ms")
    created_at: DateTime = reads("record.created_at_ms")

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.record.user)

    @strawberry.field(metadata=prefetched_by(_prefetch_users))
    def by(self, info: Info) -> UserType:
        return load_user(info.context, self.record.by)


@strawberry.type
class BanEdge:
    edge: strawberry.Private[Edge[Ban]]
    node: BanType
    cursor: str = reads("edge.cursor")


@strawberry.type
class BanConnection:
    edges: list[BanEdge]
    page_info: PageInfo


def ban_connection(page: Page[Ban]) -> BanConnection:
    """Return a page of bans as a Relay connection."""
    return BanConnection(
        edges=[BanEdge(edge=edge, node=BanType(record=edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )
