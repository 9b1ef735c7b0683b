"""Changes of sessions at the API."""

from __future__ import annotations

import strawberry

from resolvers.sessions import reading, receiving
from resolvers.sessions import session_changes as use_cases
from schema.base.context import Info
from schema.base.scalars import DateTime
from schema.sessions import SessionType, session_from


@strawberry.type
class SessionMutations:
    @strawberry.mutation(
        description="Clears unreadCount, sets readSeq to writeSeq (or to upToSeq if lower; never backwards), clears the offline "
        "queue up to it, and tells the senders. upToSeq past writeSeq means writeSeq; below 0: INVALID_INPUT."
    )
    async def mark_read(self, info: Info, conversation_id: strawberry.ID, up_to_seq: int | None = None) -> SessionType:
        context = info.context
        return session_from(await reading.mark_read(context.app, context.viewer, conversation_id, up_to_seq))

    @strawberry.mutation(
        description="Everything up to upToSeq has arrived on one of the caller's devices. Monotonic and idempotent; past writeSeq "
        "means writeSeq, below 0: INVALID_INPUT."
    )
    async def ack_delivered(self, info: Info, conversation_id: strawberry.ID, up_to_seq: int) -> SessionType:
        context = info.context
        return session_from(await receiving.ack_delivered(context.app, context.viewer, conversation_id, up_to_seq))

    @strawberry.mutation(
        description="Soft delete of the caller's own view: status INVALID, unread cleared without a receipt to anybody; history "
        "stays; the next message that isn't SYSTEM revives it with its priority, mute and category. hard: true also forgets "
        "those. Either way other devices get the tombstone."
    )
    async def delete_session(
        self, info: Info, conversation_id: strawberry.ID, hard: bool | None = False
    ) -> SessionType:
        context = info.context
        deleted = await use_cases.delete_session(context.app, context.viewer, conversation_id, hard=bool(hard))
        return session_from(deleted)

    @strawberry.mutation(
        description="Muting takes the session's unreadCount out of totalUnread; unmuting puts it back. until: the mute ends by "
        "itself then (SyncSession UNMUTE); in the past, or with muted: false: INVALID_INPUT."
    )
    async def mute_session(
        self, info: Info, conversation_id: strawberry.ID, muted: bool, until: DateTime | None = None
    ) -> SessionType:
        context = info.context
        changed = await use_cases.mute_session(
            context.app, context.viewer, conversation_id, muted=muted, until_ms=until
        )
        return session_from(changed)

    @strawberry.mutation(
        description="priority 0 to 1000: above 0 pins (higher is nearer the top) and moves writeTs and activeTs; 0 unpins and "
        "moves activeTs alone."
    )
    async def pin_session(self, info: Info, conversation_id: strawberry.ID, priority: int | None = 1) -> SessionType:
        context = info.context
        return session_from(await use_cases.pin_session(context.app, context.viewer, conversation_id, priority))

    @strawberry.mutation(
        description="A reminder to oneself: unreadStatus true, writeTs and activeTs move, readSeq and unreadCount do not."
    )
    async def set_unread(self, info: Info, conversation_id: strawberry.ID) -> SessionType:
        return session_from(await use_cases.set_unread(info.context.app, info.context.viewer, conversation_id))

    @strawberry.mutation(description="categoryId null takes the sessions out of their folder.")
    async def assign_category(
        self, info: Info, conversation_ids: list[strawberry.ID], category_id: strawberry.ID | None = None
    ) -> list[SessionType]:
        context = info.context
        changed = await use_cases.assign_category(context.app, context.viewer, conversation_ids, category_id)
        return [session_from(session) for session in changed]
