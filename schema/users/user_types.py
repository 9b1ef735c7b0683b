"""The GraphQL types of users."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from resolvers.base.pages import Edge, Page
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import JSON
from schema.compiler import prefetched_by, reads, then
from store.base.ids import UserId, is_sender_id
from store.users.user import User

if TYPE_CHECKING:
    from schema.presence.presence_types import PresenceType


PresenceRef = Annotated["PresenceType", strawberry.lazy("schema.presence.presence_types")]
"""A reference to a package above this one. `Context.load_presence` makes the objects."""


def _prefetch_presences(context: Context, users: Sequence[UserType]) -> asyncio.Future[None] | None:
    return context.loaders.presences.prefetch([user.record.id for user in users])


@strawberry.type(name="User")
class UserType(Node):
    record: strawberry.Private[User]
    id: strawberry.ID = reads("record.id")
    display_name: str = reads("record.display_name")
    avatar_url: str | None = reads("record.avatar_url")
    is_bot: bool = reads("record.is_bot")
    metadata: JSON | None = reads("record.metadata")

    @strawberry.field(
        description="Null unless the caller shares a conversation or workspace with them.",
        metadata=prefetched_by(_prefetch_presences),
    )
    def presence(self, info: Info) -> PresenceRef | None:
        return info.context.load_presence(self.record.id)


@strawberry.input
class UserInput:
    id: strawberry.ID
    display_name: str
    avatar_url: str | None = None
    is_bot: bool | None = False
    metadata: JSON | None = None


@strawberry.type
class UserEdge:
    edge: strawberry.Private[Edge[User]]
    node: UserType
    cursor: str = reads("edge.cursor")


@strawberry.type
class UserConnection:
    edges: list[UserEdge]
    page_info: PageInfo


def user_from(user: User) -> UserType:
    """Return the GraphQL object of a user."""
    return UserType(record=user)


def user_connection(page: Page[User]) -> UserConnection:
    """Return the Relay connection of a page of users."""
    return UserConnection(
        edges=[UserEdge(edge=edge, node=user_from(edge.node)) for edge in page.edges], page_info=PageInfo(page=page)
    )


def load_user(context: Context, user: UserId) -> Any:
    """Return the GraphQL object of a user, or a Deferred of it. One read serves all users that the operation needs."""
    return then(context.loaders.user(user), user_from)


async def find_user(context: Context, user: str) -> UserType | None:
    """Return a user, or None if there is no such user."""
    if not is_sender_id(user):
        return None
    found = await context.app.store.users.find(UserId(user))
    return user_from(found) if found else None
