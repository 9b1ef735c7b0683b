"""The GraphQL types of groups."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

import strawberry

from resolvers.base.pages import Page
from resolvers.groups import groups
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo, page_info
from schema.base.scalars import DateTime
from schema.compiler import then
from schema.conversations.conversation_types import Conversation, ConversationType
from schema.users.user_types import UserType, load_user
from store.base.ids import ConversationId, UserId
from store.conversations.conversation import Head, Member


@strawberry.enum
class GroupRole(Enum):
    OWNER = "OWNER"
    ADMIN = "ADMIN"
    MEMBER = "MEMBER"


@strawberry.enum
class GroupStatus(Enum):
    ACTIVE = "ACTIVE"
    DISSOLVED = "DISSOLVED"


@strawberry.enum(
    description="SINCE_JOIN: only messages from while the reader was a member. FULL: members also read what came "
    "before they joined and between memberships; former members up to when they last left."
)
class HistoryVisibility(Enum):
    SINCE_JOIN = "SINCE_JOIN"
    FULL = "FULL"


@strawberry.type
class SeqRange:
    from_seq: int
    to_seq: int | None


@strawberry.type
class GroupMember:
    user_id: strawberry.Private[UserId]
    role: GroupRole
    joined_at: DateTime

    @strawberry.field
    def user(self, info: Info) -> UserType:
        return load_user(info.context, self.user_id)


@strawberry.type
class GroupMemberEdge:
    node: GroupMember
    cursor: str


@strawberry.type
class GroupMemberConnection:
    edges: list[GroupMemberEdge]
    page_info: PageInfo


@strawberry.type
class Group(Conversation, Node):
    head: strawberry.Private[Head]
    owner_id: strawberry.Private[UserId]
    name: str
    avatar_url: str | None
    member_count: int
    history_visibility: HistoryVisibility
    status: GroupStatus
    created_at: DateTime

    @strawberry.field
    def owner(self, info: Info) -> UserType:
        return load_user(info.context, self.owner_id)

    def load_title(self, context: Context) -> str:
        return self.name

    @classmethod
    def load(cls, context: Context, conversation: ConversationId) -> Any:
        """Return a Deferred of a group in which the viewer has a session."""
        return then(context.loaders.conversations.load(conversation), lambda found: group_from(found[0]))

    @classmethod
    async def find(cls, context: Context, conversation: ConversationId) -> Group | None:
        """Return a group, or None if the viewer never was in it."""
        access = await groups.find_group(context.app, context.viewer, conversation)
        return group_from(access.head) if access is not None else None

    @strawberry.field(description="Null to people who are no longer in it. query: by prefix of the display name.")
    async def members(
        self, info: Info, first: int | None = 50, after: str | None = None
    ) -> GroupMemberConnection | None:
        context = info.context
        access = await context.loaders.access(self.conversation_id)
        page = await groups.list_members(context.app, access, first, after) if access is not None else None
        return _member_connection(page) if page is not None else None

    @strawberry.field
    async def viewer_role(self, info: Info) -> GroupRole | None:
        access = await info.context.loaders.access(self.conversation_id)
        member = access.member if access is not None else None
        return GroupRole(member.role) if member is not None and member.is_current else None

    @strawberry.field(
        description="The ranges of seq the caller may read, oldest first; toSeq is null while still a member."
    )
    async def visible_ranges(self, info: Info) -> list[SeqRange]:
        access = await info.context.loaders.access(self.conversation_id)
        ranges = access.ranges if access is not None else []
        return [SeqRange(from_seq=first, to_seq=last) for first, last in ranges]


def group_from(head: Head) -> Group:
    """Return the GraphQL object of a group."""
    info = head.group
    assert info is not None
    return Group(
        id=strawberry.ID(head.conversation),
        head=head,
        owner_id=info.owner,
        conversation_id=head.conversation,
        type=ConversationType.GROUP,
        name=info.name,
        avatar_url=info.avatar_url,
        member_count=head.member_count,
        history_visibility=HistoryVisibility.FULL if info.full_history else HistoryVisibility.SINCE_JOIN,
        status=GroupStatus.DISSOLVED if head.has_ended else GroupStatus.ACTIVE,
        created_at=DateTime(info.created_at_ms),
    )


def _member_connection(page: Page[Member]) -> GroupMemberConnection:
    return GroupMemberConnection(
        edges=[GroupMemberEdge(node=_member_from(edge.node), cursor=edge.cursor) for edge in page.edges],
        page_info=page_info(page),
    )


def _member_from(member: Member) -> GroupMember:
    return GroupMember(user_id=member.user, role=GroupRole(member.role), joined_at=DateTime(member.joined_at_ms))


@strawberry.type
class GroupEdge:
    node: Group
    cursor: str


@strawberry.type
class GroupConnection:
    edges: list[GroupEdge]
    page_info: PageInfo


async def load_group_connection(context: Context, page: Page[ConversationId]) -> GroupConnection:
    """Load the groups of a page, and return them as a Relay connection. Groups that no longer exist are left out."""
    heads = await asyncio.gather(*(context.loaders.head(edge.node) for edge in page.edges))
    return GroupConnection(
        edges=[
            GroupEdge(node=group_from(head), cursor=edge.cursor)
            for edge, head in zip(page.edges, heads, strict=True)
            if head is not None
        ],
        page_info=page_info(page),
    )
