"""Groups at the API."""

from __future__ import annotations

import asyncio
from enum import Enum

import strawberry

from resolvers.groups import groups as use_cases
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo, page_info
from schema.base.scalars import DateTime
from schema.conversations import Conversation, ConversationType
from schema.users import UserType, load_user
from store.base.ids import UserId
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
    description="SINCE_JOIN: only while one was a member. FULL: members also read what came before they joined and between; "
    "former members up to when they last left."
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

    @strawberry.field(description="Null to those no longer in it.")
    async def members(
        self, info: Info, first: int | None = 50, after: str | None = None
    ) -> GroupMemberConnection | None:
        context = info.context
        access = await context.loaders.access(self.key)
        page = await use_cases.list_members(context.app, access, first, after) if access is not None else None
        if page is None:
            return None
        return GroupMemberConnection(
            edges=[GroupMemberEdge(node=_member_from(edge.node), cursor=edge.cursor) for edge in page.edges],
            page_info=page_info(page),
        )

    @strawberry.field
    async def viewer_role(self, info: Info) -> GroupRole | None:
        access = await info.context.loaders.access(self.key)
        member = access.member if access is not None else None
        return GroupRole(member.role) if member is not None and member.is_current else None

    @strawberry.field(
        description="The stretches of seq the caller may read, oldest first; toSeq null while still a member."
    )
    async def visible_ranges(self, info: Info) -> list[SeqRange]:
        access = await info.context.loaders.access(self.key)
        ranges = access.ranges if access is not None else []
        return [SeqRange(from_seq=first, to_seq=last) for first, last in ranges]


def group_from(head: Head) -> Group:
    """A group as the API shows it."""
    info = head.group
    assert info is not None
    return Group(
        id=strawberry.ID(head.conversation),
        head=head,
        owner_id=info.owner,
        key=head.conversation,
        type=ConversationType.GROUP,
        name=info.name,
        avatar_url=info.avatar_url,
        member_count=head.member_count,
        history_visibility=HistoryVisibility.FULL if info.full_history else HistoryVisibility.SINCE_JOIN,
        status=GroupStatus.DISSOLVED if head.dissolved else GroupStatus.ACTIVE,
        created_at=DateTime(info.created_at_ms),
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


@strawberry.input(
    description="name: 1 to 100 characters. The same idempotencyKey from the same creator within 24 hours answers the first "
    "group."
)
class CreateGroupInput:
    name: str
    avatar_url: str | None = None
    member_ids: list[strawberry.ID]
    history_visibility: HistoryVisibility | None = HistoryVisibility.SINCE_JOIN
    sub_biz: str | None = None
    idempotency_key: str | None = None


@strawberry.type
class GroupQueries:
    @strawberry.field
    async def group(self, info: Info, id: strawberry.ID) -> Group | None:
        return await find_group(info.context, id)

    @strawberry.field
    async def my_groups(self, info: Info, first: int | None = 50, after: str | None = None) -> GroupConnection:
        context = info.context
        page = await use_cases.list_groups(context.app, context.viewer, first, after)
        heads = await asyncio.gather(*(context.loaders.head(edge.node) for edge in page.edges))
        return GroupConnection(
            edges=[
                GroupEdge(node=group_from(head), cursor=edge.cursor)
                for edge, head in zip(page.edges, heads, strict=True)
                if head is not None
            ],
            page_info=page_info(page),
        )


async def find_group(context: Context, group: str) -> Group | None:
    """A group that the viewer is or was in, or None."""
    access = await use_cases.find_group(context.app, context.viewer, group)
    return group_from(access.head) if access is not None else None


@strawberry.type
class GroupMutations:
    @strawberry.mutation(
        description="The creator becomes OWNER. Creator and members together, counted once each: at least 3 (GROUP_TOO_SMALL); a "
        "group may shrink below that later. At most 5,000 members, by setting (GROUP_FULL). Everybody's session is ACTIVE at "
        "once."
    )
    async def create_group(self, info: Info, input: CreateGroupInput) -> Group:
        new = use_cases.NewGroup(
            name=input.name,
            avatar_url=input.avatar_url,
            members=tuple(input.member_ids),
            full_history=input.history_visibility is HistoryVisibility.FULL,
            sub_biz=input.sub_biz,
            key=input.idempotency_key,
        )
        return group_from((await use_cases.create_group(info.context.app, info.context.viewer, new)).head)
