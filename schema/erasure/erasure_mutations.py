"""Mutations that erase users."""

from __future__ import annotations

import strawberry

from resolvers.erasure import erasing
from schema.base.context import Info
from schema.erasure.erasure_types import ErasureType, erasure_from


@strawberry.type
class ErasureMutations:
    @strawberry.mutation(
        description="Role service or admin. Messages stay without a name and files are removed; messages: true removes "
        "them too."
    )
    async def erase_user(self, info: Info, user_id: strawberry.ID, messages: bool | None = False) -> ErasureType:
        caller = info.context.caller
        assert caller is not None
        removes = bool(messages)
        return erasure_from(await erasing.erase_user(info.context.app, caller, user_id, removes_messages=removes))
