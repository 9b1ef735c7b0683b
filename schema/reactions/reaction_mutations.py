"""Mutations of reactions."""

from __future__ import annotations

import strawberry

from resolvers.reactions import reacting
from schema.base.context import Info
from schema.messages.message_types import MessageType, message_from


@strawberry.type
class ReactionMutations:
    @strawberry.mutation(
        description="emoji: one emoji of Unicode (fully qualified; other spellings are normalised), or :name: with 2 "
        "to 32 of [a-z0-9_+-]. Repeating changes nothing. More than 50 different ones on a message, or 20 by one user: "
        "LIMIT_REACHED. Adding one's own to an emoji that is already there needs no ADD_REACTIONS."
    )
    async def add_reaction(self, info: Info, message_id: strawberry.ID, emoji: str) -> MessageType:
        context = info.context
        return message_from(await reacting.add_reaction(context.app, context.viewer, message_id, emoji))

    @strawberry.mutation
    async def remove_reaction(self, info: Info, message_id: strawberry.ID, emoji: str) -> MessageType:
        context = info.context
        return message_from(await reacting.remove_reaction(context.app, context.viewer, message_id, emoji))

    @strawberry.mutation(
        description="Groups: OWNER and ADMIN; channels: MANAGE_MESSAGES; private conversations: FORBIDDEN. Without "
        "emoji: all."
    )
    async def clear_reactions(self, info: Info, message_id: strawberry.ID, emoji: str | None = None) -> MessageType:
        context = info.context
        return message_from(await reacting.clear_reactions(context.app, context.viewer, message_id, emoji))
