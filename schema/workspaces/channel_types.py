"""The GraphQL type of channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from resolvers.base.pages import Edge, Page
from resolvers.conversations.access import Access, FoundConversation, access_conversation, access_from, no_conversation
from resolvers.following import synchronising
from resolvers.following.followed_channels import FollowedChannel
from resolvers.following.member_lists import list_channel_members
from resolvers.sessions.session_lists import sync_cursor
from resolvers.users.callers import CallerRole
from resolvers.workspaces.channels import find_write_time
from resolvers.workspaces.revs import read_with_rev
from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import JSON, Cursor, DateTime, Timestamp
from schema.compiler import reads, then
from schema.conversations.conversation_types import (
    Conversation,
    ConversationType,
    HistoryVisibility,
    load_session,
)
from schema.sessions.session_types import AttentionType, SessionType, session_from
from schema.voice.voice_types import VoiceStateType, load_voice_states
from schema.workspaces.category_types import ChannelCategoryType, category_from
from schema.workspaces.member_types import WorkspaceMemberConnection, member_connection
from schema.workspaces.permission_types import (
    PermissionOverwrite,
    PermissionType,
    list_overwrites,
    list_permissions,
)
from store.base.ids import ConversationId, ConversationKind
from store.base.workspace_ids import workspace_of_channel
from store.conversations.conversation import Head
from store.sessions.session import Session
from store.workspaces import policy
from store.workspaces.permissions import Permission
from store.workspaces.rights import rights_in_workspace

if TYPE_CHECKING:
    from schema.workspaces.workspace_types import WorkspaceType

WorkspaceRef = Annotated["WorkspaceType", strawberry.lazy("schema.workspaces.workspace_types")]
"""The type of workspaces, which have channels. `Context.load_workspace` makes the object."""


@strawberry.enum(name="ChannelKind")
class ChannelKindType(Enum):
    PUBLIC = policy.ChannelKind.PUBLIC
    PRIVATE = policy.ChannelKind.PRIVATE
    VOICE = policy.ChannelKind.VOICE


@strawberry.type(name="Channel")
class ChannelType(Conversation, Node):
    access: strawberry.Private[Access]
    known_rev: strawberry.Private[int | None]
    """A position that the state includes; None: not known."""
    record: strawberry.Private[policy.Channel]
    known_session: strawberry.Private[Session | None] = None
    known_member_count: strawberry.Private[int | None] = None
    """The last one that the viewer could see; None: they see the channel."""
    id: strawberry.ID = reads("record.id")
    kind: ChannelKindType = reads("record.kind")
    name: str = reads("record.name")
    topic: str | None = reads("record.topic")
    metadata: JSON | None = reads("record.metadata")
    position: int = reads("record.position")
    is_archived: bool = reads("record.is_archived")
    is_default: bool = reads("record.is_default", description="New members follow it.")
    inherits_permissions: bool = reads("record.inherits_permissions")
    history_visibility: HistoryVisibility = reads("record.full_history")
    slow_mode_seconds: int = reads(
        "record.slow_mode_seconds",
        description="Seconds between two messages of one member, 0 to 21600. BYPASS_SLOW_MODE and MANAGE_MESSAGES are "
        "exempt. Earlier: SLOW_MODE with retryAfterMs.",
    )

    def load_title(self, context: Context) -> str:
        return self.record.name

    @classmethod
    def load(cls, context: Context, conversation: ConversationId) -> Any:
        """Return a Deferred of a channel in which the viewer has a session."""

        def channel_of(found: FoundConversation | None) -> ChannelType | Awaitable[ChannelType]:
            access = access_from(found) if found is not None else None
            if access is not None:
                return channel_from(access)
            if context.caller is None or context.caller.role is not CallerRole.SERVICE:
                raise no_conversation()
            # Services write SYSTEM messages without being members.
            return asyncio.ensure_future(_load_for_service(context, conversation))

        return then(context.loaders.conversations.find(conversation), channel_of)

    @classmethod
    async def find(cls, context: Context, conversation: ConversationId) -> ChannelType | None:
        """Return a channel, or None if the viewer can't see it."""
        app, viewer, workspace = context.app, context.viewer, workspace_of_channel(conversation)
        found = await read_with_rev(app, workspace, lambda: access_conversation(app, viewer, conversation))
        return channel_from(*found) if found is not None else None

    @strawberry.field
    def rev(self, info: Info) -> Timestamp:
        """A position on the workspace's clock that includes all of this."""
        if self.known_rev is not None:
            return Timestamp(self.known_rev)
        rev: Any = info.context.loaders.revs.find(workspace_of_channel(self.conversation_id))
        return rev

    @strawberry.field(description="The caller's read state; null if they never followed, wrote or read here.")
    def session(self, info: Info) -> SessionType | None:
        if self.known_session is not None:
            return session_from(self.known_session)
        return load_session(info.context, self.conversation_id)

    @strawberry.field
    def viewer_follows(self, info: Info) -> bool:
        if self.known_session is not None:
            return self.known_session.follows
        return then(
            info.context.loaders.sessions.load(self.conversation_id),
            lambda session: session is not None and session.follows,
        )

    @strawberry.field(description="PRIVATE: its members. PUBLIC: its followers.")
    def member_count(self, info: Info) -> int:
        if self.known_member_count is not None:
            return self.known_member_count
        return then(info.context.loaders.channel_member_counts.load(self.conversation_id), lambda count: count)

    @strawberry.field(description="PRIVATE: its members. PUBLIC: its followers. By name.")
    async def members(
        self, info: Info, first: int | None = 50, after: str | None = None, query: str | None = None
    ) -> WorkspaceMemberConnection:
        context = info.context
        page = await list_channel_members(context.app, context.viewer, self.record.id, first, after, query)
        return member_connection(page)

    @strawberry.field
    def workspace(self, info: Info) -> WorkspaceRef:
        return info.context.load_workspace(workspace_of_channel(self.conversation_id))

    @strawberry.field
    def category(self, info: Info) -> ChannelCategoryType | None:
        rights = self.access.rights
        category = self.record.category
        if rights is None or category is None or category not in rights.policy.categories:
            return None
        in_workspace = rights_in_workspace(rights.policy, rights.facts, info.context.app.store.clock.now_ms())
        return category_from(rights.policy, rights.policy.categories[category], in_workspace)

    @strawberry.field(
        description="Null without MANAGE_ROLES. inheritsPermissions: the category's overwrites apply.",
        metadata=holds(20),
    )
    def overwrites(self) -> list[PermissionOverwrite] | None:
        rights = self.access.rights
        if rights is None or not rights.may(Permission.MANAGE_ROLES):
            return None
        return list_overwrites(rights.policy.overwrites_of(self.record))

    @strawberry.field
    def viewer_permissions(self) -> list[PermissionType]:
        rights = self.access.rights
        return list_permissions(rights.permissions) if rights is not None else []

    @strawberry.field(description="When the caller may write next; null: now.")
    async def viewer_may_write_at(self, info: Info) -> DateTime | None:
        rights = self.access.rights
        at_ms = await find_write_time(info.context.app, rights) if rights is not None else None
        return DateTime(at_ms) if at_ms is not None else None

    @strawberry.field(
        description="Messages so far that count as unread until read. unreadCount is this minus Session.readCount."
    )
    def message_count(self) -> int:
        return self.access.head.newest_n

    @strawberry.field
    def pin_count(self, info: Info) -> int:
        known = self.access.head.pin_count
        if known is not None:
            return known
        # A server of a version without pins has loaded the head.
        return then(info.context.loaders.pin_counts.find(self.conversation_id), lambda count: count)

    @strawberry.field(metadata=holds(20))
    def voice_states(self, info: Info) -> list[VoiceStateType]:
        """Empty for a channel that the viewer no longer sees."""
        if self.access.rights is None or self.record.kind is not policy.ChannelKind.VOICE:
            return []
        return load_voice_states(info.context, self.conversation_id)


async def _load_for_service(context: Context, channel: ConversationId) -> ChannelType:
    """Return a channel as someone without rights there sees it."""
    head = await context.app.store.conversations.find(channel)
    version = head.policy_version if head is not None else 0
    policy = await context.app.store.policies.find(workspace_of_channel(channel), version)
    if head is None or policy is None or channel not in policy.channels:
        raise no_conversation()
    access, record = Access(head, []), policy.channels[channel]
    return ChannelType(
        access=access, known_rev=None, record=record, conversation_id=channel, type=ConversationType.CHANNEL
    )


@strawberry.type
class ChannelEdge:
    edge: strawberry.Private[Edge[Access] | Edge[FollowedChannel]]
    node: ChannelType
    cursor: str = reads("edge.cursor")


@strawberry.type
class ChannelConnection:
    edges: list[ChannelEdge]
    page_info: PageInfo


def channel_connection(page: Page[Access]) -> ChannelConnection:
    """Return a page of channels as a Relay connection."""
    return ChannelConnection(
        edges=[ChannelEdge(edge=edge, node=channel_from(edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )


def last_seen_channel(record: policy.Channel, rev: int) -> ChannelType:
    """Return the GraphQL object of a channel that the viewer no longer sees, with its last settings."""
    head = Head(record.id, ConversationKind.CHANNEL, 0, None, record.member_count, None, pin_count=0)
    return ChannelType(
        access=Access(head, []),
        known_rev=rev,
        record=record,
        known_member_count=record.member_count,
        conversation_id=record.id,
        type=ConversationType.CHANNEL,
    )


def followed_connection(page: Page[FollowedChannel]) -> ChannelConnection:
    """Return a page of followed channels as a Relay connection."""
    edges = [ChannelEdge(edge=edge, node=followed_channel(edge.node)) for edge in page.edges]
    return ChannelConnection(edges=edges, page_info=PageInfo(page=page))


@strawberry.type(description="gone: no longer followed, or no longer visible.")
class ChannelDelta:
    channels: list[ChannelType]
    gone: list[strawberry.ID]
    cursor: Cursor
    has_more: bool
    attention: AttentionType
    reset: bool


def channel_delta(context: Context, delta: synchronising.ChannelChangesSince) -> ChannelDelta:
    """Return the GraphQL object of the changes since a cursor."""
    return ChannelDelta(
        channels=[followed_channel(each) for each in delta.channels],
        gone=[strawberry.ID(channel) for channel in delta.gone],
        cursor=Cursor(sync_cursor(context.app, context.viewer, delta.cursor)),
        has_more=delta.has_more,
        attention=AttentionType(record=delta.attention),
        reset=delta.reset,
    )


def followed_channel(followed: FollowedChannel | synchronising.SyncedChannel) -> ChannelType:
    """Return the GraphQL object of a channel with the viewer's session there, as far as it was read."""
    channel = channel_from(followed.access)
    channel.known_session = followed.session
    return channel


def channel_from(access: Access, rev: int | None = None) -> ChannelType:
    """Return the GraphQL object of a channel, as the viewer with this access sees it.

    `rev`: a position on the workspace's clock before `access` was read, if it is known.
    """
    assert access.rights is not None
    return ChannelType(
        access=access,
        known_rev=rev,
        record=access.rights.channel,
        conversation_id=access.head.conversation,
        type=ConversationType.CHANNEL,
    )
