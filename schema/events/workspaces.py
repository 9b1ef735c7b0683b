"""The GraphQL types of workspace events."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Self

import strawberry

from resolvers.conversations.access import FoundConversation, access_from
from resolvers.live.workspace_events import (
    ChannelChanged,
    ChannelGone,
    OwnMembershipChanged,
    WorkspaceCaughtUp,
    WorkspaceChanged,
)
from resolvers.live.workspace_voice import ShownVoiceState
from resolvers.workspaces.access import WorkspaceAccess, no_workspace
from schema.base.context import Info
from schema.base.scalars import Timestamp
from schema.compiler import then
from schema.events.registry import MessageEventType
from schema.voice.voice_types import VoiceStateType, voice_state_from
from schema.workspaces.channel_types import ChannelType, channel_from, last_seen_channel
from schema.workspaces.member_types import WorkspaceMember
from schema.workspaces.workspace_types import WorkspaceType, workspace_from
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.workspaces.policy import Channel
from subscriptions.realtime.events.shared import ChannelActivity


@strawberry.type(name="WorkspaceChanged", description="Name, icon, plan, roles, categories: fetch what is shown.")
class WorkspaceChangedType:
    workspace_id: strawberry.Private[WorkspaceId]
    rev: Timestamp

    @classmethod
    def from_event(cls, event: WorkspaceChanged) -> Self:
        """Return the GraphQL object of an event."""
        return cls(workspace_id=event.workspace, rev=Timestamp(event.rev))

    @strawberry.field
    def workspace(self, info: Info) -> WorkspaceType:
        """The workspace as it is now."""
        return then(
            info.context.loaders.workspaces.find(self.workspace_id),
            lambda access: _present_workspace(access, self.rev),
        )


def _present_workspace(access: WorkspaceAccess | None, rev: int) -> WorkspaceType:
    if access is None or (access.facts is None and not access.info.is_open):
        # It was deleted, or the subscriber was removed, after the event. The end of their membership follows.
        raise no_workspace("workspaces")
    return workspace_from(access.info, rev)


@strawberry.type(name="ChannelChanged")
class ChannelChangedType:
    settings: strawberry.Private[Channel]
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ChannelChanged) -> Self:
        """Return the GraphQL object of an event."""
        return cls(settings=event.settings, rev=Timestamp(event.rev))

    @strawberry.field
    def channel(self, info: Info) -> ChannelType:
        """The channel as the subscriber sees it now, or as it was when they could see it."""
        return then(info.context.loaders.conversations.find(self.settings.id), self._present)

    def _present(self, found: FoundConversation | None) -> ChannelType:
        access = access_from(found) if found is not None else None
        return channel_from(access, self.rev) if access is not None else last_seen_channel(self.settings, self.rev)


@strawberry.type(
    name="ChannelGone",
    description="Deleted, or no longer visible to the caller; which of the two is not revealed.",
)
class ChannelGoneType:
    workspace_id: strawberry.ID
    channel_id: strawberry.ID
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ChannelGone) -> Self:
        """Return the GraphQL object of an event."""
        return cls(
            workspace_id=strawberry.ID(workspace_of_channel(event.channel)),
            channel_id=strawberry.ID(event.channel),
            rev=Timestamp(event.rev),
        )


@strawberry.type(
    name="OwnMembershipChanged",
    description="The caller's own roles, nickname, time-out, or the end of their membership (member: null).",
)
class OwnMembershipChangedType:
    workspace_id: strawberry.ID
    member: WorkspaceMember | None
    rev: Timestamp

    @classmethod
    def from_event(cls, event: OwnMembershipChanged) -> Self:
        """Return the GraphQL object of an event."""
        member = WorkspaceMember(record=event.facts) if event.facts is not None else None
        return cls(workspace_id=strawberry.ID(event.workspace), member=member, rev=Timestamp(event.rev))


@strawberry.type(
    name="ChannelActivity",
    description="Somebody wrote in a followed channel. At most one per second and channel, the last one always. The "
    "same for all followers, so it carries no unread count: unread = messageCount - session.readCount.",
)
class ChannelActivityType:
    channel_id: strawberry.ID
    write_seq: int
    message_count: int
    last_message_at: Timestamp
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ChannelActivity) -> Self:
        """Return the GraphQL object of an event."""
        return cls(
            channel_id=strawberry.ID(event.channel),
            write_seq=event.seq,
            message_count=event.n,
            last_message_at=Timestamp(event.at_ms),
            rev=Timestamp(event.rev),
        )


@strawberry.type(name="VoiceStateChanged")
class VoiceStateChangedType:
    workspace_id: strawberry.ID
    state: VoiceStateType
    left: bool
    rev: Timestamp

    @classmethod
    def from_event(cls, event: ShownVoiceState) -> Self:
        """Return the GraphQL object of an event."""
        return cls(
            workspace_id=strawberry.ID(workspace_of_channel(event.state.channel)),
            state=voice_state_from(event.state),
            left=event.left,
            rev=Timestamp(event.rev),
        )


@strawberry.type(name="WorkspaceCaughtUp")
class WorkspaceCaughtUpType:
    workspace_id: strawberry.ID
    rev: Timestamp
    reset: bool

    @classmethod
    def from_event(cls, event: WorkspaceCaughtUp) -> Self:
        """Return the GraphQL object of an event."""
        return cls(workspace_id=strawberry.ID(event.workspace), rev=Timestamp(event.rev), reset=event.reset)


WORKSPACE_EVENT_TYPES: Mapping[type, type[MessageEventType]] = {
    WorkspaceChanged: WorkspaceChangedType,
    ChannelChanged: ChannelChangedType,
    ChannelGone: ChannelGoneType,
    OwnMembershipChanged: OwnMembershipChangedType,
    ChannelActivity: ChannelActivityType,
    ShownVoiceState: VoiceStateChangedType,
    WorkspaceCaughtUp: WorkspaceCaughtUpType,
}
"""The GraphQL type of each event."""


def workspace_event_union() -> object:
    """Return the union for the schema."""
    return Annotated[reduce(or_, WORKSPACE_EVENT_TYPES.values()), strawberry.union("WorkspaceEvent")]


def workspace_event_from(event: object) -> object:
    """Return the GraphQL object of an event."""
    return WORKSPACE_EVENT_TYPES[type(event)].from_event(event)
