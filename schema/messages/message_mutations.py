"""Mutations that change a sent message."""

from __future__ import annotations

import strawberry

from resolvers.messages import revising
from schema.base.context import Info
from schema.messages.message_types import MessageType, message_from


@strawberry.type
class MessageMutations:
    @strawberry.mutation(
        description="By its sender only (FORBIDDEN), while a member. A recalled or SYSTEM message: INVALID_INPUT. The "
        "same content again changes nothing. Everyone who can see the message sees the edit."
    )
    async def edit_message(self, info: Info, message_id: strawberry.ID, content: str) -> MessageType:
        context = info.context
        return message_from(await revising.edit_message(context.app, context.viewer, message_id, content))

    @strawberry.mutation(
        description="By its sender within 120 s (RECALL_TIMEOUT after that), or at any time by the group's owner or "
        "an admin, or in a channel with MANAGE_MESSAGES. The record stays; its content is withheld from then on. A "
        "second recall answers the message unchanged. A SYSTEM message: INVALID_INPUT."
    )
    async def recall_message(self, info: Info, message_id: strawberry.ID) -> MessageType:
        context = info.context
        return message_from(await revising.recall_message(context.app, context.viewer, message_id))

    @strawberry.mutation(
        description="By the message's sender: removes the link previews for good; embeds given by a bot stay."
    )
    async def suppress_embeds(self, info: Info, message_id: strawberry.ID) -> MessageType:
        context = info.context
        return message_from(await revising.suppress_embeds(context.app, context.viewer, message_id))
