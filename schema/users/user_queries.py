"""Queries about users."""

from __future__ import annotations

import strawberry

from schema.base.context import Info
from schema.users.user_types import UserType, find_user, load_user


@strawberry.type
class UserQueries:
    @strawberry.field
    def me(self, info: Info) -> UserType:
        return load_user(info.context, info.context.viewer)

    @strawberry.field
    async def user(self, info: Info, id: strawberry.ID) -> UserType | None:
        return await find_user(info.context, id)
