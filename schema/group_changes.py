"""Changes of groups at the API."""

from __future__ import annotations

import strawberry

from resolvers.groups import group_changes as use_cases
from schema.base.context import Info
from schema.groups import Group, GroupRole, HistoryVisibility, group_from


@strawberry.input
class UpdateGroupInput:
    name: str | None = strawberry.UNSET
    avatar_url: str | None = strawberry.UNSET
    history_visibility: HistoryVisibility | None = strawberry.UNSET


@strawberry.type
class GroupChangeMutations:
    @strawberry.mutation(description="OWNER and ADMIN. What is left out stays; avatarUrl null takes the picture away.")
    async def update_group(self, info: Info, group_id: strawberry.ID, input: UpdateGroupInput) -> Group:
        visibility = input.history_visibility or None
        update = use_cases.GroupUpdate(
            name=None if input.name is strawberry.UNSET else input.name,
            avatar_url=None if input.avatar_url is strawberry.UNSET else input.avatar_url,
            sets_avatar=input.avatar_url is not strawberry.UNSET,
            full_history=None if visibility is None else visibility is HistoryVisibility.FULL,
        )
        return group_from((await use_cases.update_group(info.context.app, info.context.viewer, group_id, update)).head)

    @strawberry.mutation(
        description="Any member may. Those who are members already are passed over. Who joins, or joins again, gets an ACTIVE "
        "session and starts with everything so far read and delivered, without receipts to anybody: readable as "
        "historyVisibility says, never unread."
    )
    async def invite_members(self, info: Info, group_id: strawberry.ID, user_ids: list[strawberry.ID]) -> Group:
        access = await use_cases.invite_members(info.context.app, info.context.viewer, group_id, user_ids)
        return group_from(access.head)

    @strawberry.mutation(
        description="OWNER and ADMIN may; nobody removes the OWNER; an ADMIN does not remove an ADMIN."
    )
    async def remove_member(self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID) -> Group:
        access = await use_cases.remove_member(info.context.app, info.context.viewer, group_id, user_id)
        return group_from(access.head)

    @strawberry.mutation(
        description="Anyone but the OWNER (OWNER_CANNOT_LEAVE). The session stays, frozen at the last message the member could "
        "see; so it does for one who is removed."
    )
    async def leave_group(self, info: Info, group_id: strawberry.ID) -> bool:
        await use_cases.leave_group(info.context.app, info.context.viewer, group_id)
        return True

    @strawberry.mutation(description="OWNER only; the new owner must be a member; the old one becomes MEMBER.")
    async def transfer_owner(self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID) -> Group:
        access = await use_cases.transfer_owner(info.context.app, info.context.viewer, group_id, user_id)
        return group_from(access.head)

    @strawberry.mutation(description="OWNER only; ADMIN or MEMBER.")
    async def set_member_role(
        self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID, role: GroupRole
    ) -> Group:
        access = await use_cases.set_member_role(info.context.app, info.context.viewer, group_id, user_id, role.value)
        return group_from(access.head)

    @strawberry.mutation(
        description="OWNER only. Deletes the group record; group(id) and messages are null for everyone afterwards, the session "
        "of every member and former member becomes INVALID (SyncSession DELETE), and the id is never used again: NOT_FOUND."
    )
    async def dismiss_group(self, info: Info, group_id: strawberry.ID) -> bool:
        await use_cases.dismiss_group(info.context.app, info.context.viewer, group_id)
        return True

    @strawberry.mutation(
        description="A private conversation: PRIVATE_CANNOT_DELETE. A group, by its OWNER: status DISSOLVED, members released, "
        "sessions INVALID, messages kept and readable to those who were in it."
    )
    async def delete_conversation(self, info: Info, conversation_id: strawberry.ID) -> bool:
        await use_cases.delete_conversation(info.context.app, info.context.viewer, conversation_id)
        return True
