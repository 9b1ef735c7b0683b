"""Mutations that create, change, archive and delete channels and their categories."""

from __future__ import annotations

import strawberry

from resolvers.workspaces import categories, channel_changes, channel_creation
from resolvers.workspaces.channel_changes import ChannelUpdate
from resolvers.workspaces.channel_creation import NewChannel
from schema.base.context import Info
from schema.base.scalars import JSON
from schema.conversations.conversation_types import HistoryVisibility
from schema.workspaces.category_types import ChannelCategoryType, load_category
from schema.workspaces.channel_types import ChannelKindType, ChannelType, channel_from


@strawberry.input(description="name: 1 to 80 characters; topic: up to 1,024.")
class CreateChannelInput:
    workspace_id: strawberry.ID
    name: str
    kind: ChannelKindType = ChannelKindType.PUBLIC
    topic: str | None = None
    category_id: strawberry.ID | None = None
    position: int | None = None
    is_default: bool | None = False
    member_ids: list[strawberry.ID] | None = strawberry.field(default_factory=list)
    history_visibility: HistoryVisibility | None = HistoryVisibility.FULL
    slow_mode_seconds: int | None = 0
    metadata: JSON | None = None
    idempotency_key: str | None = None

    def to_new_channel(self) -> NewChannel:
        """Return the input with its defaults filled in."""
        return NewChannel(
            workspace=self.workspace_id,
            name=self.name,
            kind=self.kind.value,
            topic=self.topic,
            category=self.category_id,
            position=self.position,
            is_default=bool(self.is_default),
            members=tuple(self.member_ids or ()),
            full_history=self.history_visibility is not HistoryVisibility.SINCE_JOIN,
            slow_mode_seconds=self.slow_mode_seconds or 0,
            metadata=self.metadata,
            key=self.idempotency_key,
        )


@strawberry.input(
    description="Fields that are left out stay as they are. topic, categoryId: null removes it. metadata: null leaves "
    "it as it is; {} empties it."
)
class UpdateChannelInput:
    name: str | None = None
    topic: str | None = strawberry.UNSET
    category_id: strawberry.ID | None = strawberry.UNSET
    position: int | None = None
    is_default: bool | None = None
    kind: ChannelKindType | None = None
    slow_mode_seconds: int | None = None
    inherits_permissions: bool | None = None
    history_visibility: HistoryVisibility | None = None
    metadata: JSON | None = None

    def to_update(self) -> ChannelUpdate:
        """Return the input as the change of a channel."""
        visibility = self.history_visibility
        return ChannelUpdate(
            name=self.name,
            topic=None if self.topic is strawberry.UNSET else self.topic,
            sets_topic=self.topic is not strawberry.UNSET,
            category=None if self.category_id is strawberry.UNSET else self.category_id,
            sets_category=self.category_id is not strawberry.UNSET,
            position=self.position,
            is_default=self.is_default,
            kind=None if self.kind is None else self.kind.value,
            slow_mode_seconds=self.slow_mode_seconds,
            inherits_permissions=self.inherits_permissions,
            full_history=None if visibility is None else visibility is HistoryVisibility.FULL,
            metadata=self.metadata,
        )


@strawberry.type
class ChannelMutations:
    @strawberry.mutation(
        description="MANAGE_CHANNELS. At most 1,000 channels and 50 categories per workspace (LIMIT_REACHED). The same "
        "idempotencyKey within 24 h answers the first one."
    )
    async def create_channel(self, info: Info, input: CreateChannelInput) -> ChannelType:
        context = info.context
        return channel_from(await channel_creation.create_channel(context.app, context.viewer, input.to_new_channel()))

    @strawberry.mutation(
        description="MANAGE_CHANNELS in that channel. A new name or topic is announced by a SYSTEM message. position: "
        "the others shift; one event for all of them."
    )
    async def update_channel(self, info: Info, channel_id: strawberry.ID, input: UpdateChannelInput) -> ChannelType:
        context = info.context
        return channel_from(
            await channel_changes.update_channel(context.app, context.viewer, channel_id, input.to_update())
        )

    @strawberry.mutation(
        description="Nobody can write, react, pin or newly follow (ARCHIVED); everything readable stays readable and "
        "searchable."
    )
    async def archive_channel(self, info: Info, channel_id: strawberry.ID, archived: bool = True) -> ChannelType:
        context = info.context
        return channel_from(
            await channel_changes.archive_channel(context.app, context.viewer, channel_id, archived=archived)
        )

    @strawberry.mutation
    async def delete_channel(self, info: Info, channel_id: strawberry.ID) -> bool:
        return await channel_changes.delete_channel(info.context.app, info.context.viewer, channel_id)

    @strawberry.mutation
    async def create_category(
        self, info: Info, workspace_id: strawberry.ID, name: str, position: int | None = None
    ) -> ChannelCategoryType:
        context = info.context
        made = await categories.create_category(context.app, context.viewer, workspace_id, name, position)
        return await load_category(context, *made)

    @strawberry.mutation
    async def update_category(
        self, info: Info, category_id: strawberry.ID, name: str | None = None, position: int | None = None
    ) -> ChannelCategoryType:
        context = info.context
        changed = await categories.update_category(context.app, context.viewer, category_id, name, position)
        return await load_category(context, *changed)

    @strawberry.mutation(description="Its channels stay, without a category.")
    async def delete_category(self, info: Info, category_id: strawberry.ID) -> bool:
        return await categories.delete_category(info.context.app, info.context.viewer, category_id)
