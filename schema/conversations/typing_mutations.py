"""The mutations that notify other members that the caller is typing, or has stopped."""

from __future__ import annotations

import strawberry

from resolvers.messages import typing
from schema.base.context import Info


@strawberry.type
class TypingMutations:
    @strawberry.mutation(
        description="Tells the conversation's other connected members that the caller is typing, at most once in 3 s "
        "per user and conversation. True if it was sent; false if nobody else is visibly connected (INVISIBLE counts "
        "as absent). Clients hide the indicator after 8 s, after TypingStopped, or with the next message."
    )
    async def start_typing(self, info: Info, conversation_id: strawberry.ID) -> bool:
        return await typing.start_typing(info.context.app, info.context.viewer, conversation_id)

    @strawberry.mutation
    async def stop_typing(self, info: Info, conversation_id: strawberry.ID) -> bool:
        return await typing.stop_typing(info.context.app, info.context.viewer, conversation_id)
