"""The GraphQL types of messages."""

from __future__ import annotations

from enum import Enum
from typing import Any

import strawberry

from resolvers.base.pages import Page
from resolvers.messages import history, receipts
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo, page_info
from schema.base.scalars import DateTime
from schema.compiler import then
from schema.messages.receipt_types import (
    DeliveryType,
    ReceiptConnection,
    ReceiptStatus,
    delivery_from,
    receipt_connection,
)
from schema.users.user_types import UserType, load_user, user_from
from store.base.ids import ConversationId, message_id
from store.messages.message import Message, MessageKind


@strawberry.enum(
    description="SYSTEM: written by the server, or by a caller with role service into any conversation (INVALID_INPUT "
    "from others); takes a seq, never counts as unread, is never in offlineMessages; its sender is whoever acted, or "
    "the user acted for; its systemEvent is CUSTOM. BOT_COMMAND: an ordinary message that bots look for."
)
class ContentType(Enum):
    TEXT = MessageKind.TEXT
    SYSTEM = MessageKind.SYSTEM
    BOT_COMMAND = MessageKind.BOT_COMMAND


@strawberry.enum
class MessageState(Enum):
    NORMAL = "NORMAL"
    RECALLED = "RECALLED"


@strawberry.type(name="Message")
class MessageType(Node):
    record: strawberry.Private[Message]
    conversation_id: strawberry.ID
    seq: int = strawberry.field(
        description="Position in the conversation, strictly increasing. Clients order by it and detect gaps with it."
    )
    content_type: ContentType
    content: str | None = strawberry.field(description="Null once recalled.")
    state: MessageState
    mentions_all: bool
    edit_count: int
    edited_at: DateTime | None
    recalled_at: DateTime | None
    created_at: DateTime

    @strawberry.field
    def sender(self, info: Info) -> UserType:
        return load_user(info.context, self.record.sender)

    @strawberry.field
    async def mentions(self, info: Info) -> list[UserType]:
        return [user_from(user) for user in await info.context.loaders.users.load_many(self.record.mentions)]

    @strawberry.field
    def reply_to(self, info: Info) -> MessageType | None:
        if self.record.reply_to is None:
            return None
        found: Any = _load_reply(info.context, self.record.conversation, self.record.reply_to[1])
        return found

    @strawberry.field(description="The sender's own key, visible to the sender only.")
    def idempotency_key(self, info: Info) -> str | None:
        key = self.record.key
        return key if key is not None and info.context.tracked_viewer.is_user(self.record.sender) else None

    @strawberry.field(
        description="What the sender's tick shows: READ only when all recipients have read, DELIVERED only when all "
        "have received; SENT where there is no recipient. deliveredCount includes those who have read. Null to "
        "everyone but the sender, for SYSTEM messages, and in channels."
    )
    def delivery(self, info: Info) -> DeliveryType | None:
        is_sender = info.context.tracked_viewer.is_user(self.record.sender)
        if not receipts.may_see_receipts(self.record, is_sender=is_sender):
            return None
        progress = info.context.loaders.progress.load(self.record.conversation)
        return then(progress, lambda known: delivery_from(known.summarize(self.record.seq)))

    @strawberry.field(
        description="One row per recipient (members when it was sent, without the sender), in groups of any size. "
        "status filters for exactly that one. Null to everyone but the sender, and in channels."
    )
    async def receipts(
        self, info: Info, first: int | None = 50, after: str | None = None, status: ReceiptStatus | None = None
    ) -> ReceiptConnection | None:
        context = info.context
        status_name = status.name if status is not None else None
        is_sender = context.tracked_viewer.is_user(self.record.sender)
        page = await receipts.list_receipts(context.app, self.record, first, after, status_name, is_sender=is_sender)
        return receipt_connection(page) if page is not None else None


def message_from(message: Message) -> MessageType:
    """Return the GraphQL object of a message."""
    return MessageType(
        id=strawberry.ID(message_id(message.id)),
        record=message,
        conversation_id=strawberry.ID(message.conversation),
        seq=message.seq,
        content_type=ContentType(message.kind),
        content=message.text,
        state=MessageState.RECALLED if message.is_recalled else MessageState.NORMAL,
        mentions_all=message.mentions_all,
        edit_count=message.edits,
        edited_at=_datetime_or_none(message.edited_at_ms),
        recalled_at=_datetime_or_none(message.recalled_at_ms),
        created_at=DateTime(message.created_at_ms),
    )


async def _load_reply(context: Context, conversation: ConversationId, seq: int) -> MessageType | None:
    loaders = context.loaders
    found = await loaders.messages.load((conversation, seq)) if await loaders.may_read(conversation, seq) else None
    return message_from(found) if found else None


def _datetime_or_none(ms: int | None) -> DateTime | None:
    return DateTime(ms) if ms is not None else None


@strawberry.type
class MessageEdge:
    node: MessageType
    cursor: str


@strawberry.type
class MessageConnection:
    edges: list[MessageEdge]
    page_info: PageInfo


def message_connection(page: Page[Message]) -> MessageConnection:
    """Return a page of messages as a Relay connection."""
    return MessageConnection(
        edges=[MessageEdge(node=message_from(edge.node), cursor=edge.cursor) for edge in page.edges],
        page_info=page_info(page),
    )


async def find_message(context: Context, message: str) -> MessageType | None:
    """Return a message, or None if the viewer may not read it."""
    found = await history.find_message(context.app, context.viewer, message)
    return message_from(found) if found else None
