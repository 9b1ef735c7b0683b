"""The types of the API, made from MongoDB's rows."""

from __future__ import annotations

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
    sender_id: strawberry.Private[str]
    known_sender: strawberry.Private[Row | None]

    @strawberry.field
    async def sender(self, info: Info) -> User:
        return User.of(self.known_sender or await info.context.users.load(self.sender_id))

    @classmethod
    def of(cls, row: Row, sender: Row | None = None) -> Message:
        return cls(
            id=row["_id"],
            conversation_id=row["conversationId"],
            seq=row["seq"],
            content_type=ContentType(row["contentType"]),
            content=row["content"],
            state=MessageState(row["state"]),
            created_at=datetime.fromtimestamp(row["createdAt"] / 1000, UTC),
            sender_id=row["senderId"],
            known_sender=sender,
        )


@strawberry.interface
class Conversation:
    id: strawberry.ID
    type: ConversationType

    @strawberry.field
    async def title(self, info: Info) -> str:
        raise NotImplementedError

    @staticmethod
    def of(row: Row) -> Conversation:
        kind = ConversationType(row["type"])
        if kind is ConversationType.PRIVATE:
            return PrivateConversation(id=row["_id"], type=kind)
        return Group(
            id=row["_id"], type=kind, name=row["name"], member_count=row["memberCount"], owner_id=row["ownerId"]
        )


@strawberry.type
class PrivateConversation(Conversation):
    @strawberry.field
    async def peer(self, info: Info) -> User:
        return User.of(await info.context.users.load(self.peer_id(info)))

    @strawberry.field
    async def title(self, info: Info) -> str:
        return str((await info.context.users.load(self.peer_id(info)))["displayName"])

    def peer_id(self, info: Info) -> str:
        _, one, other = self.id.split("_")
        return other if one == info.context.viewer else one


@strawberry.type
class Group(Conversation):
    name: str
    member_count: int
    owner_id: strawberry.Private[str]

    @strawberry.field
    def title(self) -> str:
        return self.name

    @strawberry.field
    async def owner(self, info: Info) -> User:
        return User.of(await info.context.users.load(self.owner_id))


@strawberry.type
class Session:
    id: strawberry.ID
    conversation_id: strawberry.Private[str]
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

    @strawberry.field
    async def conversation(self, info: Info) -> Conversation:
        row = await info.context.conversations.load(self.conversation_id)
        assert row is not None
        return Conversation.of(row)

    @classmethod
    def of(cls, row: Row) -> Session:
        return cls(
            id=row["_id"],
            conversation_id=row["conversationId"],
            last_message=Message.of(row["lastMessage"]) if row["lastMessage"] else None,
            write_seq=row["writeSeq"],
            read_seq=row["readSeq"],
            delivered_seq=row["deliveredSeq"],
            unread_count=row["unreadCount"],
            write_ts=Timestamp(row["writeTs"]),
            active_ts=Timestamp(row["activeTs"]),
        )


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

    @strawberry.field
    async def session(self, info: Info) -> Session:
        row = await info.context.sessions.load(session_id(info.context.viewer, self.message.conversation_id))
        assert row is not None
        return Session.of(row)


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
