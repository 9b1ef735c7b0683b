"""Queries about users."""

from __future__ import annotations

import strawberry

from resolvers.users import people
from schema.base.context import Info
from schema.base.list_sizes import one_for_each
from schema.users.user_types import UserConnection, UserType, find_user, load_user, user_connection, user_from


@strawberry.type
class UserQueries:
    @strawberry.field
    def me(self, info: Info) -> UserType:
        return load_user(info.context, info.context.viewer)

    @strawberry.field
    async def user(self, info: Info, id: strawberry.ID) -> UserType | None:
        return await find_user(info.context, id)

    @strawberry.field(
        description="Users by id, in the order asked for; null for unknown ones. At most 200.",
        metadata=one_for_each("ids"),
    )
    async def users(self, info: Info, ids: list[strawberry.ID]) -> list[UserType | None]:
        # Only callers with a token.
        _ = info.context.viewer
        found = await people.find_users(info.context.app, ids)
        return [user_from(user) if user is not None else None for user in found]

    @strawberry.field(
        description="People the caller may start a conversation with, by prefix of display name, nickname or id; case "
        "and diacritics are ignored. Without directory access (a setting): only people who share a conversation or "
        "workspace with the caller."
    )
    async def search_users(
        self,
        info: Info,
        query: str,
        workspace_id: strawberry.ID | None = None,
        first: int | None = 20,
        after: str | None = None,
    ) -> UserConnection:
        context = info.context
        page = await people.search_users(context.app, context.viewer, query, workspace_id, first, after)
        return user_connection(page)
