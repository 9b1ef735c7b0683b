"""Mutations of moderation."""

from __future__ import annotations

import strawberry

from resolvers.moderation import banning, members
from resolvers.moderation.ban_input import BanInput
from resolvers.recalls import message_recalls
from schema.base.context import Info
from schema.base.list_sizes import one_for_each
from schema.base.scalars import DateTime
from schema.messages.message_types import MessageType, message_from
from schema.moderation.ban_types import BanType
from schema.workspaces.member_types import WorkspaceMember


@strawberry.type
class ModerationMutations:
    @strawberry.mutation(description="KICK_MEMBERS, only members below the caller. They may join again.")
    async def kick_member(
        self, info: Info, workspace_id: strawberry.ID, user_id: strawberry.ID, reason: str | None = None
    ) -> bool:
        await members.kick_member(info.context.app, info.context.viewer, workspace_id, user_id, reason)
        return True

    @strawberry.mutation(
        description="deleteSeconds: recalls what they wrote in the last 0 to 604800 s. until null: for good. Without a "
        "workspace: role admin, from the whole deployment; tokens are revoked at once."
    )
    async def ban_user(
        self,
        info: Info,
        user_id: strawberry.ID,
        workspace_id: strawberry.ID | None = None,
        until: DateTime | None = None,
        delete_seconds: int | None = 0,
        reason: str | None = None,
    ) -> BanType:
        caller = info.context.caller
        assert caller is not None
        given = BanInput(until, delete_seconds or 0, reason)
        return BanType(record=await banning.ban_user(info.context.app, caller, workspace_id, user_id, given))

    @strawberry.mutation(description="False: there was no ban.")
    async def unban_user(self, info: Info, user_id: strawberry.ID, workspace_id: strawberry.ID | None = None) -> bool:
        caller = info.context.caller
        assert caller is not None
        return await banning.unban_user(info.context.app, caller, workspace_id, user_id)

    @strawberry.mutation(description="TIMEOUT_MEMBERS. At most 28 days; null ends it.")
    async def timeout_member(
        self,
        info: Info,
        workspace_id: strawberry.ID,
        user_id: strawberry.ID,
        until: DateTime | None = None,
        reason: str | None = None,
    ) -> WorkspaceMember:
        app, viewer = info.context.app, info.context.viewer
        return WorkspaceMember(record=await members.timeout_member(app, viewer, workspace_id, user_id, until, reason))

    @strawberry.mutation(
        description="MANAGE_MESSAGES (groups: OWNER and ADMIN): recalls up to 100 messages of one conversation.",
        metadata=one_for_each("messageIds"),
    )
    async def recall_messages(
        self,
        info: Info,
        conversation_id: strawberry.ID,
        message_ids: list[strawberry.ID],
        reason: str | None = None,
    ) -> list[MessageType]:
        app, viewer = info.context.app, info.context.viewer
        recalled = await message_recalls.recall_messages(app, viewer, conversation_id, message_ids, reason)
        return [message_from(message) for message in recalled]
