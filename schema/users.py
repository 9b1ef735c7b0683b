"""Users at the API."""

from __future__ import annotations

from typing import Any

import strawberry

from resolvers.users import users as use_cases
from schema.base.context import Context, Info
from schema.base.nodes import Node
from schema.compiler import then
from store.base.ids import UserId, is_user_id
from store.users.user import User


@strawberry.type(name="User")
class UserType(Node):
    display_name: str
    avatar_url: str | None
    is_bot: bool


@strawberry.input
class UserInput:
    id: strawberry.ID
    display_name: str
    avatar_url: str | None = None
    is_bot: bool | None = False


def user_from(user: User) -> UserType:
    """A user as the API shows it."""
    return UserType(
        id=strawberry.ID(user.id), display_name=user.display_name, avatar_url=user.avatar_url, is_bot=user.is_bot
    )


def load_user(context: Context, user: UserId) -> Any:
    """A user by id, or an Eventual of it, read together with all others that the operation needs."""
    return then(context.loaders.user(user), user_from)


async def find_user(context: Context, user: str) -> UserType | None:
    """A user, or None."""
    if not is_user_id(user):
        return None
    found = await context.app.store.users.find(UserId(user))
    return user_from(found) if found else None


@strawberry.type
class UserQueries:
    @strawberry.field
    def me(self, info: Info) -> UserType:
        return load_user(info.context, info.context.viewer)

    @strawberry.field
    async def user(self, info: Info, id: strawberry.ID) -> UserType | None:
        return await find_user(info.context, id)


@strawberry.type
class UserMutations:
    @strawberry.mutation(
        description="Callers with role service or admin only. A user also comes to exist with their first authenticated "
        "request; the token's name and picture fill what is not set."
    )
    async def upsert_users(self, info: Info, input: list[UserInput]) -> list[UserType]:
        caller = info.context.caller
        assert caller is not None
        users = [User(UserId(u.id), u.display_name, u.avatar_url, bool(u.is_bot)) for u in input]
        return [user_from(user) for user in await use_cases.upsert_users(info.context.app, caller, users)]
