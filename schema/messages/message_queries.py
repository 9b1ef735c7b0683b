"""Queries for messages."""

from __future__ import annotations

import strawberry

from resolvers.messages import history, offline_queue
from schema.base.context import Info
from schema.messages.message_types import MessageConnection, MessageType, find_message, message_connection


@strawberry.type
class MessageQueries:
    @strawberry.field(
        description="History in order of seq: the newest message is last on every page; last/before pages backwards. "
        "With neither first nor last: the last 50. Only messages inside the caller's membership intervals, however "
        "often they joined and left. aroundSeq: a page of `first` messages (50) with the one at, or nearest to, that "
        "seq in its middle. fromSeq: starts there, with first. Each excludes the other, after and before. An unknown "
        "conversation, or one the caller was never in: null."
    )
    async def messages(
        self,
        info: Info,
        conversation_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
        last: int | None = None,
        before: str | None = None,
        around_seq: int | None = None,
        from_seq: int | None = None,
    ) -> MessageConnection | None:
        page = await history.list_messages(
            info.context.app, info.context.viewer, conversation_id,
            first=first, after=after, last=last, before=before, around_seq=around_seq, from_seq=from_seq,
            sizes=info.context.page_sizes,
        )  # fmt: skip
        return message_connection(page) if page is not None else None

    @strawberry.field
    async def message(self, info: Info, id: strawberry.ID) -> MessageType | None:
        return await find_message(info.context, id)

    @strawberry.field(
        description="Messages that reached the caller's conversations and have not been acknowledged as delivered on "
        "any of the caller's devices (the offline queue), newest first. markRead and ackDelivered shrink it."
    )
    async def offline_messages(self, info: Info, first: int | None = 50, after: str | None = None) -> MessageConnection:
        context = info.context
        page = await offline_queue.list_offline(context.app, context.viewer, first, after, context.page_sizes)
        return message_connection(page)
