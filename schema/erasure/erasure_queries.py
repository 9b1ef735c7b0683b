"""Queries about erasures."""

from __future__ import annotations

import strawberry

from resolvers.erasure import erasing
from schema.base.context import Info
from schema.erasure.erasure_types import ErasureType, erasure_from


@strawberry.type
class ErasureQueries:
    @strawberry.field(
        description="The newest erasure of a user; null if there was none in the last 30 days. Role service or admin."
    )
    async def erasure(self, info: Info, user_id: strawberry.ID) -> ErasureType | None:
        # Only callers with a token.
        _ = info.context.viewer
        caller = info.context.caller
        assert caller is not None
        found = await erasing.find_erasure(info.context.app, caller, user_id)
        return erasure_from(found) if found is not None else None
