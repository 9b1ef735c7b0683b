"""The GraphQL types of conversations: the interface, private conversations, and the gateway of a subBiz."""

from __future__ import annotations

from enum import Enum
from typing import Any

import strawberry

from resolvers.conversations.access import access_conversation
from schema.base.context import Context, Info
from schema.base.nodes import Node
from schema.compiler import then
from schema.messages.message_types import MessageType
from schema.sessions.session_types import SessionType, load_last_message, session_from
from schema.users.user_types import UserType, load_user
from store.base.ids import ConversationId, UserId, parse_private
from store.sessions.session import Session


@strawberry.enum
class ConversationType(Enum):
    PRIVATE = "PRIVATE"
    GROUP = "GROUP"
    CHANNEL = "CHANNEL"
    SUB_BIZ = "SUB_BIZ"
    THREAD = "THREAD"


@strawberry.enum(
    description="SINCE_JOIN: only messages from while the reader was a member. FULL: members also read what came "
    "before they joined and between memberships; former members up to when they last left."
)
class HistoryVisibility(Enum):
    # The values are those of `GroupInfo.full_history` and `Channel.full_history`.
    SINCE_JOIN = False
    FULL = True


@strawberry.interface(
    description="title: the other person's name, the name of the group or channel, the subBiz, or the start of a "
    "thread's parent message."
)
class Conversation:
    conversation_id: strawberry.Private[ConversationId]
    id: strawberry.ID
    type: ConversationType

    @strawberry.field
    def title(self, info: Info) -> str:
        return self.load_title(info.context)

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        return load_last_message(info.context, self.conversation_id)

    @strawberry.field
    def session(self, info: Info) -> SessionType | None:
        return load_session(info.context, self.conversation_id)

    def load_title(self, context: Context) -> Any:
        """Return the title that the viewer sees, or a Deferred of it."""
        raise NotImplementedError


def load_session(context: Context, conversation: ConversationId) -> Any:
    """Return the viewer's session of a conversation, or a Deferred of it; None if there is none."""
    return then(
        context.loaders.sessions.load(conversation),
        lambda found: session_from(found) if found is not None else None,
    )


@strawberry.type
class PrivateConversation(Conversation, Node):
    peer_id: strawberry.Private[UserId]

    @strawberry.field
    def peer(self, info: Info) -> UserType:
        return load_user(info.context, self.peer_id)

    def load_title(self, context: Context) -> Any:
        return then(context.loaders.user(self.peer_id), lambda peer: peer.display_name)

    @classmethod
    def load(cls, context: Context, conversation: ConversationId) -> PrivateConversation:
        """Return one of the viewer's private conversations."""
        people = parse_private(conversation)
        assert people is not None
        peer = people[1] if people[0] == context.viewer else people[0]
        return cls(
            id=strawberry.ID(conversation), conversation_id=conversation, peer_id=peer, type=ConversationType.PRIVATE
        )

    @classmethod
    async def find(cls, context: Context, conversation: ConversationId) -> PrivateConversation | None:
        """Return a private conversation, or None if it is not the viewer's or has no messages."""
        access = await access_conversation(context.app, context.viewer, conversation)
        return cls.load(context, conversation) if access is not None else None


@strawberry.type(
    description="Represents all of the caller's sessions inside one subBiz in the main list. writeTs and lastMessage "
    "are the newest of theirs; unreadCount is the sum of those not muted. It can be pinned, muted and read (which "
    "reads all of them) like any session. totalUnread counts the sessions inside it once. Its seqs are 0. setUnread, "
    "deleteSession and assignCategory do not apply (INVALID_INPUT). syncSessions returns it beside the sessions "
    'inside. Followed threads are the subBiz "@threads".'
)
class SubBizGateway(Conversation, Node):
    sub_biz: str

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        context = info.context

        def newest_inside(session: Session | None) -> Any:
            newest = session.newest_inside if session is not None else None
            return load_last_message(context, newest) if newest is not None else None

        return then(context.loaders.sessions.load(self.conversation_id), newest_inside)

    def load_title(self, context: Context) -> Any:
        return self.sub_biz

    @classmethod
    def load(cls, context: Context, conversation: ConversationId) -> SubBizGateway:
        """Return the gateway of a subBiz in which the viewer has sessions."""
        return cls(
            id=strawberry.ID(conversation),
            conversation_id=conversation,
            sub_biz=conversation.removeprefix("b_"),
            type=ConversationType.SUB_BIZ,
        )

    @classmethod
    async def find(cls, context: Context, conversation: ConversationId) -> SubBizGateway | None:
        """Return the gateway of a subBiz, or None if the viewer has no sessions in it."""
        session = await context.loaders.sessions.load(conversation)
        return cls.load(context, session.conversation) if session is not None else None
