"""Mutations that create and change groups."""

from __future__ import annotations

import strawberry

from resolvers.groups import group_changes
from resolvers.groups.group_creation import NewGroup, create_group
from schema.base.context import Info
from schema.base.scalars import JSON
from schema.conversations.conversation_types import HistoryVisibility
from schema.groups.group_types import Group, GroupRole, group_from


@strawberry.input(
    description="Fields that are left out stay as they are. avatarUrl: null removes the picture. metadata: null leaves "
    "it as it is; {} empties it."
)
class UpdateGroupInput:
    name: str | None = strawberry.UNSET
    avatar_url: str | None = strawberry.UNSET
    metadata: JSON | None = None
    history_visibility: HistoryVisibility | None = strawberry.UNSET

    def to_update(self) -> group_changes.GroupUpdate:
        """Return the input as the change of a group."""
        visibility = self.history_visibility or None
        return group_changes.GroupUpdate(
            name=None if self.name is strawberry.UNSET else self.name,
            avatar_url=None if self.avatar_url is strawberry.UNSET else self.avatar_url,
            sets_avatar=self.avatar_url is not strawberry.UNSET,
            metadata=self.metadata,
            full_history=None if visibility is None else visibility is HistoryVisibility.FULL,
        )


@strawberry.input(
    description="name: 1 to 100 characters. The same idempotencyKey from the same creator within 24 hours answers the "
    "first group."
)
class CreateGroupInput:
    name: str
    avatar_url: str | None = None
    metadata: JSON | None = None
    member_ids: list[strawberry.ID]
    history_visibility: HistoryVisibility | None = HistoryVisibility.SINCE_JOIN
    sub_biz: str | None = None
    idempotency_key: str | None = None

    def to_new_group(self) -> NewGroup:
        """Return the input with its defaults filled in."""
        return NewGroup(
            name=self.name,
            avatar_url=self.avatar_url,
            members=tuple(self.member_ids),
            full_history=self.history_visibility is HistoryVisibility.FULL,
            sub_biz=self.sub_biz,
            metadata=self.metadata,
            key=self.idempotency_key,
        )


@strawberry.type
class GroupMutations:
    @strawberry.mutation(
        description="The creator becomes OWNER. Creator and members together, each counted once: at least 3 "
        "(GROUP_TOO_SMALL); a group may shrink below that later. At most 5,000 members, configurable (GROUP_FULL). "
        "Everyone's session is ACTIVE at once."
    )
    async def create_group(self, info: Info, input: CreateGroupInput) -> Group:
        access = await create_group(info.context.app, info.context.viewer, input.to_new_group())
        return group_from(access.head)

    @strawberry.mutation(description="OWNER and ADMIN. Sends GroupChanged.")
    async def update_group(self, info: Info, group_id: strawberry.ID, input: UpdateGroupInput) -> Group:
        context = info.context
        access = await group_changes.update_group(context.app, context.viewer, group_id, input.to_update())
        return group_from(access.head)

    @strawberry.mutation(
        description="Any member may invite. Existing members are skipped. Whoever joins, or joins again, gets an "
        "ACTIVE session in which everything so far counts as read and delivered, without receipts: readable as "
        "historyVisibility says, never unread."
    )
    async def invite_members(self, info: Info, group_id: strawberry.ID, user_ids: list[strawberry.ID]) -> Group:
        access = await group_changes.invite_members(info.context.app, info.context.viewer, group_id, user_ids)
        return group_from(access.head)

    @strawberry.mutation(description="OWNER and ADMIN. The OWNER cannot be removed; an ADMIN cannot remove an ADMIN.")
    async def remove_member(self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID) -> Group:
        access = await group_changes.remove_member(info.context.app, info.context.viewer, group_id, user_id)
        return group_from(access.head)

    @strawberry.mutation(
        description="Anyone but the OWNER (OWNER_CANNOT_LEAVE). The session stays, frozen at the last message the "
        "member could see; likewise for a person who is removed."
    )
    async def leave_group(self, info: Info, group_id: strawberry.ID) -> bool:
        await group_changes.leave_group(info.context.app, info.context.viewer, group_id)
        return True

    @strawberry.mutation(description="OWNER only. The new owner must be a member; the old one becomes MEMBER.")
    async def transfer_owner(self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID) -> Group:
        access = await group_changes.transfer_owner(info.context.app, info.context.viewer, group_id, user_id)
        return group_from(access.head)

    @strawberry.mutation(description="OWNER only; ADMIN or MEMBER. Sends GroupChanged.")
    async def set_member_role(
        self, info: Info, group_id: strawberry.ID, user_id: strawberry.ID, role: GroupRole
    ) -> Group:
        access = await group_changes.set_member_role(
            info.context.app, info.context.viewer, group_id, user_id, role.value
        )
        return group_from(access.head)

    @strawberry.mutation(
        description="OWNER only. Deletes the group record: group(id) and messages are null for everyone afterwards, "
        "the session of every member and former member becomes INVALID (SyncSession DELETE), and the id is never used "
        "again."
    )
    async def dismiss_group(self, info: Info, group_id: strawberry.ID) -> bool:
        await group_changes.dismiss_group(info.context.app, info.context.viewer, group_id)
        return True

    @strawberry.mutation(
        description="A private conversation: PRIVATE_CANNOT_DELETE. A group, by its OWNER: status DISSOLVED, members "
        "released, sessions INVALID, messages kept and readable to those who were in it."
    )
    async def delete_conversation(self, info: Info, conversation_id: strawberry.ID) -> bool:
        await group_changes.delete_conversation(info.context.app, info.context.viewer, conversation_id)
        return True
