"""The GraphQL types of messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from resolvers.base.pages import Edge, Page
from resolvers.messages import history, receipts
from resolvers.threads.threads import thread_of
from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import JSON, DateTime
from schema.compiler import prefetched_by, reads, then
from schema.files.file_types import AttachmentType
from schema.messages.authors import load_author
from schema.messages.embed_types import EmbedType, embeds_of
from schema.messages.reaction_types import ReactionType, reactions_of
from schema.messages.receipt_types import (
    DeliveryType,
    ReceiptConnection,
    ReceiptStatus,
    delivery_from,
    receipt_connection,
)
from schema.messages.system_event_types import SystemEventType, system_event_from
from schema.users.user_types import UserType, load_user
from store.base.ids import ConversationId, MessageId, thread_id
from store.base.workspace_ids import workspace_of_channel
from store.messages.message import Message, MessageKind

if TYPE_CHECKING:
    from schema.threads.thread_types import ThreadType
    from schema.workspaces.role_types import RoleType

RoleRef = Annotated["RoleType", strawberry.lazy("schema.workspaces.role_types")]
"""A reference to a package above this one. `Context.load_roles` makes the objects."""

ThreadRef = Annotated["ThreadType", strawberry.lazy("schema.threads.thread_types")]
"""A reference to a package above this one. `Context.load_thread` makes the objects."""


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
    # The values are those of `Message.is_recalled`.
    NORMAL = False
    RECALLED = True


def _prefetch_senders(context: Context, messages: Sequence[MessageType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([message.record.sender for message in messages])


def _prefetch_mentions(context: Context, messages: Sequence[MessageType]) -> asyncio.Future[None] | None:
    return context.loaders.prefetch_users([user for message in messages for user in message.record.shown_mentions])


def _prefetch_recallers(context: Context, messages: Sequence[MessageType]) -> asyncio.Future[None] | None:
    users = [message.record.recalled_by for message in messages]
    return context.loaders.prefetch_users([user for user in users if user is not None])


def _prefetch_replies(context: Context, messages: Sequence[MessageType]) -> asyncio.Future[Any] | None:
    return context.loaders.prefetch_readable(
        [(m.record.conversation, m.record.reply_to[1]) for m in messages if m.record.reply_to is not None]
    )


def _prefetch_broadcast(context: Context, messages: Sequence[MessageType]) -> asyncio.Future[Any] | None:
    places = [place for message in messages if (place := _place_of_reply(message.record)) is not None]
    return context.loaders.replies.prefetch(places)


def _prefetch_threads(context: Context, messages: Sequence[MessageType]) -> asyncio.Future[None] | None:
    if context.tracked_viewer.is_shared:
        return None
    threads = [thread for message in messages if (thread := thread_of(message.record)) is not None]
    return context.loaders.conversations.prefetch(threads)


def _prefetch_deliveries(context: Context, messages: Sequence[MessageType]) -> asyncio.Future[None] | None:
    return context.loaders.progress.prefetch(
        [message.record.conversation for message in messages if _may_see_receipts(context, message)]
    )


def _prefetch_blocks(context: Context, _messages: Sequence[MessageType]) -> asyncio.Future[None] | None:
    return context.loaders.blocks.prefetch([context.viewer]) if not context.tracked_viewer.is_shared else None


@strawberry.type(name="Message")
class MessageType(Node):
    record: strawberry.Private[Message]
    id: strawberry.ID = reads("record.public_id")
    conversation_id: strawberry.ID = reads("record.conversation")
    seq: int = reads(
        "record.seq",
        description="Position in the conversation, strictly increasing. Clients order by it and detect gaps with it.",
    )
    content_type: ContentType = reads("record.kind")
    content: str | None = reads("record.text", description="Null once recalled.")
    metadata: JSON | None = reads(
        "record.metadata", description="Application data given by the sender. Null once recalled."
    )
    state: MessageState = reads("record.is_recalled")
    mentions_all: bool = reads("record.shows_mention_of_all")
    edit_count: int = reads("record.edits")
    edited_at: DateTime | None = reads("record.edited_at_ms")
    recalled_at: DateTime | None = reads("record.recalled_at_ms")
    created_at: DateTime = reads("record.created_at_ms")
    is_pinned: bool = reads("record.is_pinned")

    @strawberry.field(metadata=prefetched_by(_prefetch_senders))
    def sender(self, info: Info) -> UserType:
        return load_user(info.context, self.record.sender)

    @strawberry.field(
        description="What to show as the author: the nickname in a workspace, the name a webhook gave, or the display "
        "name.",
        metadata=prefetched_by(_prefetch_senders),
    )
    def author_name(self, info: Info) -> str:
        return then(load_author(info.context, self.record), attrgetter("name"))

    @strawberry.field(metadata=prefetched_by(_prefetch_senders))
    def author_avatar_url(self, info: Info) -> str | None:
        return then(load_author(info.context, self.record), attrgetter("avatar_url"))

    @strawberry.field(
        description="Who recalled it: the sender or a moderator.", metadata=prefetched_by(_prefetch_recallers)
    )
    def recalled_by(self, info: Info) -> UserType | None:
        user = self.record.recalled_by
        return load_user(info.context, user) if user is not None else None

    @strawberry.field(
        description="What a SYSTEM message announces, for clients that phrase it themselves in the reader's language."
    )
    def system_event(self) -> SystemEventType | None:
        return system_event_from(self.record)

    @strawberry.field(metadata=prefetched_by(_prefetch_mentions) | holds(10))
    def mentions(self, info: Info) -> list[UserType]:
        return [load_user(info.context, user) for user in self.record.shown_mentions]

    @strawberry.field(metadata=holds(5))
    def mentioned_roles(self, info: Info) -> list[RoleRef]:
        roles = self.record.shown_roles
        return info.context.load_roles(workspace_of_channel(self.record.conversation), roles) if roles else []

    @strawberry.field(metadata=prefetched_by(_prefetch_replies))
    def reply_to(self, info: Info) -> MessageType | None:
        if self.record.reply_to is None:
            return None
        return then(
            info.context.loaders.readable_message(self.record.conversation, self.record.reply_to[1]),
            lambda found: message_from(found) if found is not None else None,
        )

    @strawberry.field(description="The sender's own key, visible to the sender only.")
    def idempotency_key(self, info: Info) -> str | None:
        key = self.record.key
        return key if key is not None and info.context.tracked_viewer.is_user(self.record.sender) else None

    @strawberry.field(
        description="What the sender's tick shows: READ only when all recipients have read, DELIVERED only when all "
        "have received; SENT where there is no recipient. deliveredCount includes those who have read. Null to "
        "everyone but the sender, for SYSTEM messages, and in channels.",
        metadata=prefetched_by(_prefetch_deliveries),
    )
    def delivery(self, info: Info) -> DeliveryType | None:
        if not _may_see_receipts(info.context, self):
            return None
        progress = info.context.loaders.progress.find(self.record.conversation)
        return then(progress, lambda known: delivery_from(known.summarize(self.record.seq)))

    @strawberry.field(
        description="One row per recipient (members when it was sent, without the sender), in groups of any size. "
        "status filters for exactly that one. Null to everyone but the sender, and in channels."
    )
    def receipts(
        self, info: Info, first: int | None = 50, after: str | None = None, status: ReceiptStatus | None = None
    ) -> ReceiptConnection | None:
        context, record = info.context, self.record
        query = receipts.receipt_query(
            record,
            first,
            after,
            status.name if status is not None else None,
            is_sender=context.tracked_viewer.is_user(record.sender),
        )
        if query is None:
            return None
        return then(
            context.loaders.receipts.find(query), lambda rows: receipt_connection(receipts.receipt_page(query, rows))
        )

    @strawberry.field(description="Null until somebody replies in a thread.", metadata=prefetched_by(_prefetch_threads))
    def thread(self, info: Info) -> ThreadRef | None:
        return info.context.load_thread(self.record)

    @strawberry.field(
        description="This message is the copy, in the conversation, of a thread reply that was sent with broadcast: "
        "the reply.",
        metadata=prefetched_by(_prefetch_broadcast),
    )
    def broadcast_of(self, info: Info) -> MessageType | None:
        place = _place_of_reply(self.record)
        if place is None:
            return None
        loaders = info.context.loaders

        def readable(reply: Message | None) -> Any:
            return loaders.readable_message(reply.conversation, reply.seq) if reply is not None else None

        found = then(loaders.replies.find(place), readable)
        return then(found, lambda reply: message_from(reply) if reply is not None else None)

    @strawberry.field(
        description="In the order in which they were first used; at most 50 different emoji.", metadata=holds(3)
    )
    def reactions(self) -> list[ReactionType]:
        return reactions_of(self.record) if self.record.reactions else []

    @strawberry.field(metadata=holds(2))
    def attachments(self) -> list[AttachmentType]:
        return [AttachmentType.of_message(file) for file in self.record.attachments]

    @strawberry.field(
        description="Made by the server after sending (MessageUpdated; editCount stays), or given by a bot.",
        metadata=holds(2),
    )
    def embeds(self) -> list[EmbedType]:
        return embeds_of(self.record) if self.record.embeds.items else []

    @strawberry.field(
        description="The caller has blocked the sender: show it collapsed.", metadata=prefetched_by(_prefetch_blocks)
    )
    def is_from_blocked(self, info: Info) -> bool:
        context, sender = info.context, self.record.sender
        if context.tracked_viewer.is_shared:
            return context.tracked_viewer.has_blocked(context.app.subscriber_blocks, sender)
        blocked: Any = then(context.loaders.blocks.find(context.viewer), lambda row: sender in row.users)
        return blocked


def message_from(message: Message) -> MessageType:
    """Return the GraphQL object of a message."""
    return MessageType(record=message)


def _place_of_reply(message: Message) -> tuple[ConversationId, MessageId] | None:
    """Return thread and id of the reply that a message shows; None: it is no copy."""
    shown = message.broadcast_of
    return (thread_id(message.conversation, shown.parent_seq), shown.reply) if shown is not None else None


def _may_see_receipts(context: Context, message: MessageType) -> bool:
    is_sender = context.tracked_viewer.is_user(message.record.sender)
    return receipts.may_see_receipts(message.record, is_sender=is_sender)


@strawberry.type
class MessageEdge:
    edge: strawberry.Private[Edge[Message]]
    node: MessageType
    cursor: str = reads("edge.cursor")


@strawberry.type
class MessageConnection:
    edges: list[MessageEdge]
    page_info: PageInfo


def message_connection(page: Page[Message]) -> MessageConnection:
    """Return a page of messages as a Relay connection."""
    return MessageConnection(
        edges=[MessageEdge(edge=edge, node=message_from(edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )


async def find_message(context: Context, message: str) -> MessageType | None:
    """Return a message, or None if the viewer may not read it."""
    found = await history.find_message(context.app, context.viewer, message)
    return message_from(found) if found else None
