"""The GraphQL type of reactions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import strawberry

from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.scalars import DateTime
from schema.compiler import prefetched_by, reads, then
from schema.users.user_types import UserType, load_user
from store.messages.copy_store import with_reactions_row
from store.messages.message import Message
from store.reactions.reaction_summary import ReactionSummary


def _prefetch_users(context: Context, reactions: Sequence[ReactionType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([user for reaction in reactions for user in reaction.record.users])


def _prefetch_own(context: Context, reactions: Sequence[ReactionType]) -> asyncio.Future[None] | None:
    viewer = context.tracked_viewer
    unknown = [r for r in reactions if not viewer.is_shared and viewer.has_reacted(r.record) is None]
    return context.loaders.own_reactions.prefetch((r.message, r.record.emoji) for r in unknown) if unknown else None


@strawberry.type(name="Reaction", description="count is the number of users, exactly. users: the first 5.")
class ReactionType:
    record: strawberry.Private[ReactionSummary]
    message: strawberry.Private[Message]
    emoji: str = reads("record.emoji")
    count: int = reads("record.user_count")
    first_at: DateTime = reads("record.first_at_ms")

    @strawberry.field(metadata=prefetched_by(_prefetch_users) | holds(5))
    def users(self, info: Info) -> list[UserType]:
        return [load_user(info.context, user) for user in self.record.users]

    @strawberry.field(metadata=prefetched_by(_prefetch_own))
    def viewer_reacted(self, info: Info) -> bool:
        context = info.context
        known = context.tracked_viewer.has_reacted(self.record)
        if known is not None:
            return known
        found: Any = context.loaders.own_reactions.find((self.message, self.record.emoji))
        return then(found, bool)


def reactions_of(message: Message) -> list[ReactionType]:
    """Return the GraphQL objects of a message's reactions."""
    owner = with_reactions_row(message)
    return [ReactionType(record=summary, message=owner) for summary in message.reactions]
