"""Queries of threads."""

from __future__ import annotations

import strawberry

from resolvers.threads.threads import list_threads
from schema.base.context import Info
from schema.threads.thread_types import ThreadConnection, ThreadType, thread_connection
from store.base.ids import ConversationId, ConversationKind, kind_of


@strawberry.type
class ThreadQueries:
    @strawberry.field
    async def thread(self, info: Info, id: strawberry.ID) -> ThreadType | None:
        if kind_of(id) is not ConversationKind.THREAD:
            return None
        return await ThreadType.find(info.context, ConversationId(id))

    @strawberry.field(description="Threads of one conversation, latest reply first.")
    async def threads(
        self, info: Info, conversation_id: strawberry.ID, first: int | None = 50, after: str | None = None
    ) -> ThreadConnection:
        context = info.context
        return thread_connection(await list_threads(context.app, context.viewer, conversation_id, first, after))
