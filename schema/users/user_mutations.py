"""Mutations of users."""

from __future__ import annotations

import strawberry

from resolvers.base.metadata import encode_metadata
from resolvers.users import users
from schema.base.context import Info
from schema.base.list_sizes import one_for_each
from schema.base.scalars import JSON
from schema.users.user_types import UserInput, UserType, user_from
from store.base.ids import UserId
from store.users.user import User


@strawberry.type
class UserMutations:
    @strawberry.mutation(
        description="Role service or admin only. A user also comes into being with their first authenticated request; "
        "the token's name and picture fill what is not set.",
        metadata=one_for_each("input"),
    )
    async def upsert_users(self, info: Info, input: list[UserInput]) -> list[UserType]:
        caller = info.context.caller
        assert caller is not None
        given = [
            User(UserId(u.id), u.display_name, u.avatar_url, bool(u.is_bot), encode_metadata(u.metadata)) for u in input
        ]
        return [user_from(user) for user in await users.upsert_users(info.context.app, caller, given)]

    @strawberry.mutation(
        description='The caller\'s own profile; null leaves a field as it is, avatarUrl: "" removes the picture.'
    )
    async def update_me(
        self,
        info: Info,
        display_name: str | None = None,
        avatar_url: str | None = None,
        metadata: JSON | None = None,
    ) -> UserType:
        context = info.context
        return user_from(await users.update_me(context.app, context.viewer, display_name, avatar_url, metadata))
