"""The types of the API, made from MongoDB's rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, NewType

import strawberry
from strawberry.dataloader import DataLoader

from bench.baseline.chat import Chat, ChatError
from bench.baseline.rows import Row, session_id

Timestamp = NewType("Timestamp", int)
Cursor = NewType("Cursor", str)

SCALARS: dict[object, Any] = {
    Timestamp: strawberry.scalar(name="Timestamp", serialize=int, parse_value=int),
    Cursor: strawberry.scalar(name="Cursor", serialize=str, parse_value=str),
}


@dataclass
class Context:
    """The context of a request, or of a WebSocket for its lifetime: there, loaders batch but do not cache."""

    chat: Chat
    user_id: str | None
    is_socket: bool
    connection_params: dict[str, Any] | None = None
    users: DataLoader[str, Row] = field(init=False)
    conversations: DataLoader[str, Row | None] = field(init=False)
    sessions: DataLoader[str, Row | None] = field(init=False)

    def __post_init__(self) -> None:
        cache = not self.is_socket
        self.users = DataLoader(self.chat.find_users, cache=cache)
        self.conversations = DataLoader(self.chat.find_conversations, cache=cache)
        self.sessions = DataLoader(self.chat.find_sessions, cache=cache)

    @property
    def viewer(self) -> str:
        if self.user_id is None:
            raise ChatError("UNAUTHENTICATED", "Say who you are.")
        return self.user_id


Info = strawberry.Info[Context, None]


@strawberry.enum
class ContentType(Enum):
    TEXT = "TEXT"


@strawberry.enum
class MessageState(Enum):
    NORMAL = "NORMAL"


@strawberry.enum
class ConversationType(Enum):
    PRIVATE = "PRIVATE"
    GROUP = "GROUP"


@strawberry.enum
class SessionStatus(Enum):
    ACTIVE = "ACTIVE"


@strawberry.enum
class ReceiptStatus(Enum):
    READ = "READ"


@strawberry.enum
class SyncReason(Enum):
    READ = "READ"
    MEMBERSHIP = "MEMBERSHIP"
    CATCH_UP = "CATCH_UP"


@strawberry.type
class User:
    id: strawberry.ID
    display_name: str
    avatar_url: str | None
    is_bot: bool

    @classmethod
    def of(cls, row: Row) -> User:
        return cls(
            id=row["_id"],
            display_name=row["displayName"],
            avatar_url=row.get("avatarUrl"),
            is_bot=row.get("isBot", False),
        )


@strawberry.type
class Message:
    id: strawberry.ID
    conversation_id: strawberry.ID
    seq: int
    content_type: ContentType
    content: str | None
    state: MessageState
    created_at: datetime
    sender: User

    @classmethod
    def of(cls, row: Row, sender: Row) -> Message:
        return cls(
            id=row["_id"],
            conversation_id=row["conversationId"],
            seq=row["seq"],
            content_type=ContentType(row["contentType"]),
            content=row["content"],
            state=MessageState(row["state"]),
            created_at=datetime.fromtimestamp(row["createdAt"] / 1000, UTC),
            sender=User.of(sender),
        )


@strawberry.interface
class Conversation:
    id: strawberry.ID
    type: ConversationType
    title: str


@strawberry.type
class PrivateConversation(Conversation):
    peer: User


@strawberry.type
class Group(Conversation):
    name: str
    member_count: int
    owner_id: strawberry.Private[str]

    @strawberry.field
    async def owner(self, info: Info) -> User:
        return User.of(await info.context.users.load(self.owner_id))

    @classmethod
    def of(cls, row: Row) -> Group:
        return cls(
            id=row["_id"],
            type=ConversationType.GROUP,
            title=row["name"],
            name=row["name"],
            member_count=row["memberCount"],
            owner_id=row["ownerId"],
        )


def conversation_of(row: Row, viewer: str, people: Mapping[str, Row]) -> Conversation:
    """Return a conversation. people: the other person of a private one."""
    peer = _peer_of(row["_id"], viewer)
    if peer is None:
        return Group.of(row)
    person = User.of(people[peer])
    kind = ConversationType.PRIVATE
    return PrivateConversation(id=row["_id"], type=kind, title=person.display_name, peer=person)


def _peer_of(conversation_id: str, viewer: str) -> str | None:
    """Return the other person of a private conversation."""
    if not conversation_id.startswith("p_"):
        return None
    _, one, other = conversation_id.split("_")
    return other if one == viewer else one


@strawberry.type
class Session:
    id: strawberry.ID
    conversation: Conversation
    last_message: Message | None
    write_seq: int
    read_seq: int
    delivered_seq: int
    unread_count: int
    write_ts: Timestamp
    active_ts: Timestamp
    status: SessionStatus = SessionStatus.ACTIVE
    mute_status: bool = False
    priority: int = 0

    @classmethod
    def of(cls, row: Row, conversation: Conversation, last: Message | None) -> Session:
        return cls(
            id=row["_id"],
            conversation=conversation,
            last_message=last,
            write_seq=row["writeSeq"],
            read_seq=row["readSeq"],
            delivered_seq=row["deliveredSeq"],
            unread_count=row["unreadCount"],
            write_ts=Timestamp(row["writeTs"]),
            active_ts=Timestamp(row["activeTs"]),
        )


async def load_messages(context: Context, rows: Sequence[Row]) -> list[Message]:
    """Return messages with their senders."""
    senders = await context.users.load_many([row["senderId"] for row in rows])
    return [Message.of(row, sender) for row, sender in zip(rows, senders, strict=True)]


async def load_conversations(context: Context, rows: Sequence[Row]) -> list[Conversation]:
    """Return conversations, private ones with the other person."""
    peers = [peer for row in rows if (peer := _peer_of(row["_id"], context.viewer))]
    people = dict(zip(peers, await context.users.load_many(peers), strict=True))
    return [conversation_of(row, context.viewer, people) for row in rows]


async def load_sessions(context: Context, rows: Sequence[Row]) -> list[Session]:
    """Return sessions with their conversations and last messages."""
    found = await context.conversations.load_many([row["conversationId"] for row in rows])
    known = [row for row in found if row is not None]
    with_last = [row["lastMessage"] for row in known if row["lastMessage"]]
    conversations, messages = await asyncio.gather(
        load_conversations(context, known), load_messages(context, with_last)
    )
    last = {message.conversation_id: message for message in messages}
    return [
        Session.of(row, conversation, last.get(conversation.id))
        for row, conversation in zip(rows, conversations, strict=True)
    ]


@strawberry.type
class WithTotal:
    """Adds the caller's total, counted only if it is selected."""

    @strawberry.field
    async def total_unread(self, info: Info) -> int:
        return await info.context.chat.total_unread(info.context.viewer)


@strawberry.type
class PageInfo:
    has_next_page: bool
    has_previous_page: bool
    start_cursor: str | None
    end_cursor: str | None


@strawberry.type
class SessionEdge:
    node: Session
    cursor: str


@strawberry.type
class SessionConnection(WithTotal):
    edges: list[SessionEdge]
    page_info: PageInfo
    cursor: Cursor


@strawberry.type
class SessionDelta(WithTotal):
    sessions: list[Session]
    cursor: Cursor
    has_more: bool
    reset: bool = False


@strawberry.type
class SyncSession(WithTotal):
    reason: SyncReason
    sessions: list[Session]
    cursor: Cursor
    has_more: bool = False
    reset: bool = False


@strawberry.type
class MessageEdge:
    node: Message
    cursor: str


@strawberry.type
class MessageConnection:
    edges: list[MessageEdge]
    page_info: PageInfo


@strawberry.type
class SendMessagePayload:
    message: Message
    replayed: bool
    conversation: strawberry.Private[Conversation]

    @strawberry.field
    async def session(self, info: Info) -> Session:
        row = await info.context.sessions.load(session_id(info.context.viewer, self.message.conversation_id))
        assert row is not None
        return Session.of(row, self.conversation, self.message)


@strawberry.type
class MessageCreated:
    message: Message
    cursor: Cursor


@strawberry.type
class ReceiptAdvanced:
    conversation_id: strawberry.ID
    user: User
    status: ReceiptStatus
    seq: int
    cursor: Cursor


@strawberry.type
class CaughtUp:
    cursor: Cursor
    reset: bool


MessageEvent = Annotated[MessageCreated | ReceiptAdvanced | CaughtUp, strawberry.union("MessageEvent")]


@strawberry.input
class SendMessageInput:
    content: str
    to_user_id: strawberry.ID | None = None
    conversation_id: strawberry.ID | None = None
    idempotency_key: str | None = None


@strawberry.input
class CreateGroupInput:
    name: str
    member_ids: list[strawberry.ID]
