"""The query for one conversation."""

from __future__ import annotations

import strawberry

from schema.base.context import Info
from schema.conversations.conversation_types import Conversation


@strawberry.type
class ConversationQueries:
    @strawberry.field
    async def conversation(self, info: Info, id: strawberry.ID) -> Conversation | None:
        return await info.context.find_conversation(id)
