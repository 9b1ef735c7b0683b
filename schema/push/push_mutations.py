"""Mutations of push notifications."""

from __future__ import annotations

import strawberry

from resolvers.push.own_pushes import send_test_push
from schema.base.context import Info
from schema.push.push_types import PushResultType


@strawberry.type
class PushMutations:
    @strawberry.mutation(description="Sends a push to this device now and says what became of it.")
    async def test_push(self, info: Info, device_id: strawberry.ID) -> PushResultType:
        context = info.context
        return PushResultType(record=await send_test_push(context.app, context.viewer, str(device_id)))
