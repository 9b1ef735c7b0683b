"""The mutations of blocking."""

from __future__ import annotations

import strawberry

from resolvers.blocks import blocking
from schema.base.context import Info
from schema.users.user_types import UserType, user_from


@strawberry.type
class BlockMutations:
    @strawberry.mutation(
        description="A blocked user cannot write to the caller privately (BLOCKED), add them to a group, or see their "
        "presence (OFFLINE). In groups and channels their messages are isFromBlocked and cause neither push nor "
        "Mentioned, and their typing is not shown; they still count as unread, since counts are positions. Whoever "
        "adds somebody who blocked them to a group gets no error: that person is skipped. Nobody is told. At most "
        "1,000."
    )
    async def block_user(self, info: Info, user_id: strawberry.ID) -> UserType:
        context = info.context
        return user_from(await blocking.block_user(context.app, context.viewer, user_id))

    @strawberry.mutation
    async def unblock_user(self, info: Info, user_id: strawberry.ID) -> UserType:
        context = info.context
        return user_from(await blocking.unblock_user(context.app, context.viewer, user_id))
