"""Typing at the API."""

from __future__ import annotations

import strawberry

from resolvers.conversations import typing as use_cases
from schema.base.context import Info


@strawberry.type
class TypingMutations:
    @strawberry.mutation(
        description="Broadcast to the conversation's other members who are connected, at most once in 3 s per user and "
        "conversation: true if it was (false with nobody there)."
    )
    async def start_typing(self, info: Info, conversation_id: strawberry.ID) -> bool:
        return await use_cases.start_typing(info.context.app, info.context.viewer, conversation_id)
