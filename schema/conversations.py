"""Conversations at the API: the interface, the private kind, and what stands for a subBiz."""

from __future__ import annotations

from enum import Enum
from typing import Any

import strawberry

from resolvers.conversations.access import Access, access_conversation
from schema.base.context import Context, Info
from schema.base.nodes import Node
from schema.compiler import then
from schema.messages import MessageType
from schema.sessions import SessionType, load_last_message, session_from
from schema.users import UserType, load_user
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.sessions.session import Session


@strawberry.enum
class ConversationType(Enum):
    PRIVATE = "PRIVATE"
    GROUP = "GROUP"
    CHANNEL = "CHANNEL"
    SUB_BIZ = "SUB_BIZ"


@strawberry.interface(description="title: the other person's name, the group's name, the subBiz.")
class Conversation:
    key: strawberry.Private[ConversationId]
    id: strawberry.ID
    type: ConversationType

    @strawberry.field
    def title(self, info: Info) -> str:
        return self.load_title(info.context)

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        return load_last_message(info.context, self.key)

    @strawberry.field
    def session(self, info: Info) -> SessionType | None:
        return then(
            info.context.loaders.sessions.load(self.key),
            lambda found: session_from(found) if found is not None else None,
        )

    def load_title(self, context: Context) -> Any:
        """What the viewer's list shows, or an Eventual of it."""
        raise NotImplementedError


@strawberry.type
class PrivateConversation(Conversation, Node):
    peer_id: strawberry.Private[UserId]

    @strawberry.field
    def peer(self, info: Info) -> UserType:
        return load_user(info.context, self.peer_id)

    def load_title(self, context: Context) -> Any:
        return then(context.loaders.user(self.peer_id), lambda peer: peer.display_name)


def private_from(context: Context, conversation: ConversationId) -> PrivateConversation:
    """A private conversation of the viewer's."""
    people = parse_private(conversation)
    assert people is not None
    peer = people[1] if people[0] == context.viewer else people[0]
    return PrivateConversation(
        id=strawberry.ID(conversation), key=conversation, peer_id=peer, type=ConversationType.PRIVATE
    )


@strawberry.type(
    description="Stands in the main list for all of the caller's sessions in one subBiz: writeTs and lastMessage are the newest of "
    "theirs, unreadCount the sum of those not muted. It can be pinned, muted and read (which reads all of them) like any session. "
    "totalUnread counts the sessions inside it once. Its seqs are 0; setUnread, delete and category don't apply (INVALID_INPUT). "
    "syncSessions carries it beside the sessions inside."
)
class SubBizGateway(Conversation, Node):
    sub_biz: str

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        context = info.context

        def newest_inside(session: Session | None) -> Any:
            newest = session.newest_inside if session is not None else None
            return load_last_message(context, newest) if newest is not None else None

        return then(context.loaders.sessions.load(self.key), newest_inside)

    def load_title(self, context: Context) -> Any:
        return self.sub_biz


def gateway_from(conversation: ConversationId) -> SubBizGateway:
    """The gateway of a subBiz that the viewer has sessions in."""
    return SubBizGateway(
        id=strawberry.ID(conversation),
        key=conversation,
        sub_biz=conversation.removeprefix("b_"),
        type=ConversationType.SUB_BIZ,
    )


def load_conversation(context: Context, conversation: ConversationId) -> Any:
    """The conversation of one of the viewer's sessions, or an Eventual of it."""
    if parse_private(conversation) is not None:
        return private_from(context, conversation)
    if kind_of(conversation) is ConversationKind.SUB_BIZ:
        return gateway_from(conversation)
    from schema.groups import group_from

    return then(context.loaders.conversations.load(conversation), lambda found: group_from(found[0]))


async def find_conversation(context: Context, conversation: str) -> Conversation | None:
    """A conversation that the viewer is or was in, or None."""
    if kind_of(conversation) is ConversationKind.SUB_BIZ:
        session = await context.loaders.sessions.load(ConversationId(conversation))
        return gateway_from(session.conversation) if session is not None else None
    access = await access_conversation(context.app, context.viewer, conversation)
    return conversation_from(context, access) if access is not None else None


def conversation_from(context: Context, access: Access) -> Conversation:
    """A conversation that was found accessible."""
    if access.member is None:
        return private_from(context, access.head.conversation)
    from schema.groups import group_from

    return group_from(access.head)


@strawberry.type
class ConversationQueries:
    @strawberry.field
    async def conversation(self, info: Info, id: strawberry.ID) -> Conversation | None:
        return await find_conversation(info.context, id)
