"""Mutations of pinned messages."""

from __future__ import annotations

import strawberry

from resolvers.pins import pinning
from schema.base.context import Info
from schema.messages.message_types import MessageType, message_from


@strawberry.type
class PinMutations:
    @strawberry.mutation(
        description="Private: either person; groups: OWNER and ADMIN; channels: PIN_MESSAGES. At most 250 "
        "(LIMIT_REACHED). Announced by a SYSTEM message."
    )
    async def pin_message(self, info: Info, message_id: strawberry.ID) -> MessageType:
        context = info.context
        return message_from(await pinning.pin_message(context.app, context.viewer, message_id))

    @strawberry.mutation
    async def unpin_message(self, info: Info, message_id: strawberry.ID) -> MessageType:
        context = info.context
        return message_from(await pinning.unpin_message(context.app, context.viewer, message_id))
