"""Queries for pinned messages."""

from __future__ import annotations

import strawberry

from resolvers.pins.pinned_messages import list_pinned
from schema.base.context import Info
from schema.messages.message_types import MessageConnection, message_connection


@strawberry.type
class PinQueries:
    @strawberry.field(description="Latest pin first.")
    async def pinned_messages(
        self, info: Info, conversation_id: strawberry.ID, first: int | None = 50, after: str | None = None
    ) -> MessageConnection:
        context = info.context
        page = await list_pinned(context.app, context.viewer, conversation_id, first, after, context.page_sizes)
        return message_connection(page)
