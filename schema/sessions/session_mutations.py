"""Mutations that change the caller's sessions."""

from __future__ import annotations

import strawberry

from resolvers.following.notification_levels import set_notification_level
from resolvers.sessions import reading, receiving, session_changes
from schema.base.context import Info
from schema.base.list_sizes import one_for_each
from schema.base.scalars import DateTime
from schema.sessions.session_types import SessionType, session_from
from store.sessions.fields import NotificationLevel


@strawberry.input(name="DeliveryMark")
class DeliveryMarkInput:
    conversation_id: strawberry.ID
    up_to_seq: int


@strawberry.type
class SessionMutations:
    @strawberry.mutation(
        description="Clears unreadCount, sets readSeq to writeSeq (or to upToSeq if that is lower; never backwards), "
        "clears the offline queue up to there, and notifies the senders. upToSeq beyond writeSeq means writeSeq; "
        "below 0: INVALID_INPUT."
    )
    async def mark_read(self, info: Info, conversation_id: strawberry.ID, up_to_seq: int | None = None) -> SessionType:
        context = info.context
        return session_from(await reading.mark_read(context.app, context.viewer, conversation_id, up_to_seq))

    @strawberry.mutation(
        description="markRead for up to 200 conversations in one change with one SyncSession. Without ids: all that "
        "are unread, muted ones included.",
        metadata=one_for_each("conversationIds", otherwise=100),
    )
    async def mark_many_read(
        self, info: Info, conversation_ids: list[strawberry.ID] | None = None
    ) -> list[SessionType]:
        context = info.context
        read = await reading.mark_many_read(context.app, context.viewer, conversation_ids)
        return [session_from(session) for session in read]

    @strawberry.mutation(
        description="Everything up to upToSeq has arrived on one of the caller's devices. Monotonic and idempotent; "
        "beyond writeSeq means writeSeq. While the caller is INVISIBLE, senders learn of it only with the next "
        "markRead or when the caller is visible again."
    )
    async def ack_delivered(self, info: Info, conversation_id: strawberry.ID, up_to_seq: int) -> SessionType:
        context = info.context
        return session_from(await receiving.ack_delivered(context.app, context.viewer, conversation_id, up_to_seq))

    @strawberry.mutation(
        description="ackDelivered for up to 200 conversations at once.", metadata=one_for_each("marks")
    )
    async def ack_many_delivered(self, info: Info, marks: list[DeliveryMarkInput]) -> list[SessionType]:
        context = info.context
        wanted = [receiving.DeliveryMark(mark.conversation_id, mark.up_to_seq) for mark in marks]
        acknowledged = await receiving.ack_many_delivered(context.app, context.viewer, wanted)
        return [session_from(session) for session in acknowledged]

    @strawberry.mutation(
        description="Soft delete of the caller's own view: status INVALID, unread cleared without receipts; history "
        "stays. The next message that is not SYSTEM revives it with its priority, mute and category. hard: true also "
        "forgets those. Other devices receive the tombstone."
    )
    async def delete_session(
        self, info: Info, conversation_id: strawberry.ID, hard: bool | None = False
    ) -> SessionType:
        context = info.context
        deleted = await session_changes.delete_session(context.app, context.viewer, conversation_id, hard=bool(hard))
        return session_from(deleted)

    @strawberry.mutation(
        description="Muting removes the session's unreadCount from totalUnread; unmuting adds it back. until: the "
        "mute ends by itself at that time (SyncSession UNMUTE). until in the past, or together with muted: false: "
        "INVALID_INPUT."
    )
    async def mute_session(
        self, info: Info, conversation_id: strawberry.ID, muted: bool, until: DateTime | None = None
    ) -> SessionType:
        context = info.context
        changed = await session_changes.mute_session(
            context.app, context.viewer, conversation_id, muted=muted, until_ms=until
        )
        return session_from(changed)

    @strawberry.mutation(
        description="priority 0 to 1000. Above 0 pins the session (higher is nearer the top) and moves writeTs and "
        "activeTs; 0 unpins and moves activeTs."
    )
    async def pin_session(self, info: Info, conversation_id: strawberry.ID, priority: int | None = 1) -> SessionType:
        context = info.context
        return session_from(await session_changes.pin_session(context.app, context.viewer, conversation_id, priority))

    @strawberry.mutation(
        description="A personal reminder: sets unreadStatus and moves writeTs and activeTs; readSeq and unreadCount "
        "stay."
    )
    async def set_unread(self, info: Info, conversation_id: strawberry.ID) -> SessionType:
        return session_from(await session_changes.set_unread(info.context.app, info.context.viewer, conversation_id))

    @strawberry.mutation(
        description="categoryId: null removes the sessions from their category.",
        metadata=one_for_each("conversationIds"),
    )
    async def assign_category(
        self, info: Info, conversation_ids: list[strawberry.ID], category_id: strawberry.ID | None = None
    ) -> list[SessionType]:
        context = info.context
        changed = await session_changes.assign_category(context.app, context.viewer, conversation_ids, category_id)
        return [session_from(session) for session in changed]

    @strawberry.mutation(
        description="Of one conversation, channel, thread or workspace. level null: as the next larger one says. "
        "Conversations: SyncSession NOTIFICATIONS."
    )
    async def set_notification_level(
        self,
        info: Info,
        id: strawberry.ID,
        level: NotificationLevel | None = strawberry.UNSET,
        suppress_everyone: bool | None = strawberry.UNSET,
    ) -> NotificationLevel:
        context = info.context
        arguments = {"level": level, "suppresses_everyone": suppress_everyone}
        values = {name: value for name, value in arguments.items() if value is not strawberry.UNSET}
        return await set_notification_level(context.app, context.viewer, id, values)
