"""The GraphQL types of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import Any

import strawberry

from resolvers.base.pages import Edge, Page
from resolvers.groups import groups
from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import JSON, DateTime
from schema.compiler import prefetched_by, reads, then
from schema.conversations.conversation_types import Conversation, ConversationType, HistoryVisibility
from schema.users.user_types import UserType, load_user
from store.base.ids import ConversationId
from store.conversations.conversation import Head, Member
from store.conversations.group_info import GroupInfo


@strawberry.enum
class GroupRole(Enum):
    OWNER = "OWNER"
    ADMIN = "ADMIN"
    MEMBER = "MEMBER"


@strawberry.enum
class GroupStatus(Enum):
    # The values are those of `Head.has_ended`.
    ACTIVE = False
    DISSOLVED = True


@strawberry.type
class SeqRange:
    from_seq: int
    to_seq: int | None


def _prefetch_members(context: Context, members: Sequence[GroupMember]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([member.record.user for member in members])


@strawberry.type
class GroupMember:
    record: strawberry.Private[Member]
    role: GroupRole = reads("record.role")
    joined_at: DateTime = reads("record.joined_at_ms")

    @strawberry.field(metadata=prefetched_by(_prefetch_members))
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.record.user)


@strawberry.type
class GroupMemberEdge:
    edge: strawberry.Private[Edge[Member]]
    node: GroupMember
    cursor: str = reads("edge.cursor")


@strawberry.type
class GroupMemberConnection:
    edges: list[GroupMemberEdge]
    page_info: PageInfo


@strawberry.type
class Group(Conversation, Node):
    head: strawberry.Private[Head]
    group: strawberry.Private[GroupInfo]
    id: strawberry.ID = reads("head.conversation")
    name: str = reads("group.name")
    avatar_url: str | None = reads("group.avatar_url")
    metadata: JSON | None = reads("group.metadata")
    member_count: int = reads("head.member_count")
    history_visibility: HistoryVisibility = reads("group.full_history")
    status: GroupStatus = reads("head.has_ended")
    created_at: DateTime = reads("group.created_at_ms")

    @strawberry.field
    def owner(self, info: Info) -> UserType:
        return load_user(info.context, self.group.owner)

    def load_title(self, context: Context) -> str:
        return self.group.name

    @classmethod
    def load(cls, context: Context, conversation: ConversationId) -> Any:
        """Return a Deferred of a group in which the viewer has a session."""
        loaders = context.loaders

        def seen_by_viewer(found: tuple[Head, Member | None] | None) -> Any:
            if found is not None:
                return group_from(found[0])
            # A service that has written into a group without being a member has a session in the answer.
            return then(loaders.heads.find(conversation), group_from)

        return then(loaders.conversations.find(conversation), seen_by_viewer)

    @classmethod
    async def find(cls, context: Context, conversation: ConversationId) -> Group | None:
        """Return a group, or None if the viewer never was in it."""
        access = await groups.find_group(context.app, context.viewer, conversation)
        return group_from(access.head) if access is not None else None

    @strawberry.field(description="Null to people who are no longer in it. query: by prefix of the display name.")
    async def members(
        self, info: Info, first: int | None = 50, after: str | None = None, query: str | None = None
    ) -> GroupMemberConnection | None:
        context = info.context
        access = await context.loaders.access(self.conversation_id)
        if access is None:
            return None
        page = await groups.list_members(context.app, context.viewer, access, first, after, query)
        return _member_connection(page) if page is not None else None

    @strawberry.field
    async def viewer_role(self, info: Info) -> GroupRole | None:
        access = await info.context.loaders.access(self.conversation_id)
        member = access.member if access is not None else None
        return GroupRole(member.role) if member is not None and member.is_current else None

    @strawberry.field(
        description="The ranges of seq the caller may read, oldest first; toSeq is null while still a member.",
        metadata=holds(10),
    )
    async def visible_ranges(self, info: Info) -> list[SeqRange]:
        access = await info.context.loaders.access(self.conversation_id)
        ranges = access.ranges if access is not None else []
        return [SeqRange(from_seq=first, to_seq=last) for first, last in ranges]


def group_from(head: Head) -> Group:
    """Return the GraphQL object of a group."""
    info = head.group
    assert info is not None
    return Group(head=head, group=info, conversation_id=head.conversation, type=ConversationType.GROUP)


def _member_connection(page: Page[Member]) -> GroupMemberConnection:
    return GroupMemberConnection(
        edges=[GroupMemberEdge(edge=edge, node=_member_from(edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )


def _member_from(member: Member) -> GroupMember:
    return GroupMember(record=member)


@strawberry.type
class GroupEdge:
    edge: strawberry.Private[Edge[ConversationId]]
    node: Group
    cursor: str = reads("edge.cursor")


@strawberry.type
class GroupConnection:
    edges: list[GroupEdge]
    page_info: PageInfo


async def load_group_connection(context: Context, page: Page[ConversationId]) -> GroupConnection:
    """Load the groups of a page, and return them as a Relay connection. Groups that no longer exist are left out."""
    heads = await asyncio.gather(*(context.loaders.head(edge.node) for edge in page.edges))
    return GroupConnection(
        edges=[
            GroupEdge(edge=edge, node=group_from(head))
            for edge, head in zip(page.edges, heads, strict=True)
            if head is not None
        ],
        page_info=PageInfo(page=page),
    )
