"""Messages at the API."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import strawberry

from resolvers.base.errors import Unavailable
from resolvers.base.pages import Page
from resolvers.messages import history, receipts, revising
from resolvers.messages import offline_queue as offline
from resolvers.messages import sending as use_cases
from resolvers.messages.new_messages import NewMessage
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo, page_info
from schema.base.scalars import DateTime
from schema.compiler import then
from schema.receipts import DeliveryType, ReceiptConnection, ReceiptStatus, delivery_from, receipt_connection
from schema.users import UserType, load_user, user_from
from store.base.ids import ConversationId, message_id
from store.messages.message import Message, MessageKind
from store.sessions.session import Session

if TYPE_CHECKING:
    from schema.sessions import SessionType

SessionRef = Annotated["SessionType", strawberry.lazy("schema.sessions")]


@strawberry.enum(
    description="SYSTEM: written by the server only (INVALID_INPUT from a client); takes a seq, never counts as unread, never "
    "in offlineMessages; its sender is who acted. BOT_COMMAND: an ordinary message that bots look for."
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
        description="Position in the conversation: strictly increasing in the order of the conversation. What clients order "
        "and detect gaps by."
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

    @strawberry.field(description="The sender's own key, shown to the sender alone.")
    def idempotency_key(self, info: Info) -> str | None:
        key = self.record.key
        return key if key is not None and info.context.looking.is_(self.record.sender) else None

    @strawberry.field(
        description="What the sender's tick shows: READ only when all recipients have read, DELIVERED only when all have "
        "received; SENT where there is no recipient. deliveredCount includes those who read. Null to all but the sender, and "
        "for SYSTEM."
    )
    def delivery(self, info: Info) -> DeliveryType | None:
        is_sender = info.context.looking.is_(self.record.sender)
        if not receipts.may_see_receipts(self.record, is_sender=is_sender):
            return None
        progress = info.context.loaders.progress.load(self.record.conversation)
        return then(progress, lambda known: delivery_from(known.summarize(self.record.seq)))

    @strawberry.field(
        description="One row a recipient (those who were members when it was sent, less the sender), in groups of any size; "
        "status: exactly that one. Null to all but the sender."
    )
    async def receipts(
        self, info: Info, first: int | None = 50, after: str | None = None, status: ReceiptStatus | None = None
    ) -> ReceiptConnection | None:
        context = info.context
        wanted = status.name if status is not None else None
        is_sender = context.looking.is_(self.record.sender)
        page = await receipts.list_receipts(context.app, self.record, first, after, wanted, is_sender=is_sender)
        return receipt_connection(page) if page is not None else None


def message_from(message: Message) -> MessageType:
    """A message as the API shows it."""
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
        edited_at=_moment(message.edited_at_ms),
        recalled_at=_moment(message.recalled_at_ms),
        created_at=DateTime(message.created_at_ms),
    )


async def _load_reply(context: Context, conversation: ConversationId, seq: int) -> MessageType | None:
    loaders = context.loaders
    found = await loaders.messages.load((conversation, seq)) if await loaders.may_read(conversation, seq) else None
    return message_from(found) if found else None


def _moment(ms: int | None) -> DateTime | None:
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
    """A page of messages as Relay wants it."""
    return MessageConnection(
        edges=[MessageEdge(node=message_from(edge.node), cursor=edge.cursor) for edge in page.edges],
        page_info=page_info(page),
    )


@strawberry.input(
    description="Exactly one of toUserId and conversationId. toUserId opens the private conversation if there is none."
)
class SendMessageInput:
    to_user_id: strawberry.ID | None = None
    conversation_id: strawberry.ID | None = None
    sub_biz: str | None = strawberry.field(default=None, description="With toUserId only; [a-z0-9-]{1,32}.")
    content: str = strawberry.field(
        description="1 to 4000 characters (Unicode code points), not only white space, no NUL. A message to oneself: "
        "INVALID_INPUT."
    )
    content_type: ContentType | None = ContentType.TEXT
    mentions: list[strawberry.ID] | None = strawberry.field(
        default_factory=list, description="Members of the conversation only (INVALID_INPUT)."
    )
    mention_all: bool | None = strawberry.field(
        default=False, description="OWNER and ADMIN only (FORBIDDEN); in a private conversation: INVALID_INPUT."
    )
    reply_to_id: strawberry.ID | None = strawberry.field(
        default=None, description="A message of the same conversation that the sender can see (INVALID_INPUT)."
    )
    idempotency_key: str | None = None


@strawberry.type
class SendMessagePayload:
    answer: strawberry.Private[use_cases.SendResult]
    message: MessageType
    replayed: bool

    @strawberry.field
    def session(self, info: Info) -> SessionRef:
        loaders, session = info.context.loaders, self.answer.session
        return then(session or loaders.sessions.load(self.answer.message.conversation), _sender_session)


def _sender_session(session: Session | None) -> SessionRef:
    """Who wrote has a session. Until it can be seen, which takes a moment where a server died, the answer is unknown."""
    from schema.sessions import session_from

    if session is None:
        raise Unavailable("the message is stored, and not to be seen yet")
    return session_from(session)


@strawberry.type
class MessageQueries:
    @strawberry.field(
        description="History in order of seq, so newest last in every page; last/before walks back. With neither first nor "
        "last: last 50. Only messages inside the caller's membership intervals, however many times they joined and left. "
        "An unknown conversation, or one the caller was never in, is null."
    )
    async def messages(
        self,
        info: Info,
        conversation_id: strawberry.ID,
        first: int | None = None,
        after: str | None = None,
        last: int | None = None,
        before: str | None = None,
    ) -> MessageConnection | None:
        page = await history.list_messages(
            info.context.app, info.context.viewer, conversation_id,
            first=first, after=after, last=last, before=before,
        )  # fmt: skip
        return message_connection(page) if page is not None else None

    @strawberry.field
    async def message(self, info: Info, id: strawberry.ID) -> MessageType | None:
        return await find_message(info.context, id)

    @strawberry.field(
        description="Messages that reached the caller's conversations and were not acknowledged as delivered on any of the "
        "caller's devices (the offline queue), newest first. markRead and ackDelivered shrink it."
    )
    async def offline_messages(self, info: Info, first: int | None = 50, after: str | None = None) -> MessageConnection:
        context = info.context
        return message_connection(await offline.list_offline(context.app, context.viewer, first, after))


async def find_message(context: Context, message: str) -> MessageType | None:
    """A message that the viewer may read, or None."""
    found = await history.find_message(context.app, context.viewer, message)
    return message_from(found) if found else None


@strawberry.type
class MessageMutations:
    @strawberry.mutation(
        description="Durable (majority, journalled) before it is answered. Sending reads the conversation: the sender's readSeq "
        "becomes the message's seq, receipts to others included, without a SyncSession or ReceiptAdvanced to oneself. "
        "idempotencyKey: 1 to 128 characters, kept 24 hours per sender across all conversations; the same key with the same "
        "input as first sent answers the ORIGINAL message with replayed: true, and stores nothing; with any other input "
        "(destination resolved, defaults filled in): IDEMPOTENCY_CONFLICT."
    )
    async def send_message(self, info: Info, input: SendMessageInput) -> SendMessagePayload:
        answer = await use_cases.send_message(info.context.app, info.context.viewer, _new_message(input))
        return SendMessagePayload(answer=answer, message=message_from(answer.message), replayed=answer.replayed)

    @strawberry.mutation(
        description="By its sender only (FORBIDDEN), while a member; one that is recalled, or SYSTEM: INVALID_INPUT. The same "
        "content again changes nothing. All who can see the message see the edit."
    )
    async def edit_message(self, info: Info, message_id: strawberry.ID, content: str) -> MessageType:
        context = info.context
        return message_from(await revising.edit_message(context.app, context.viewer, message_id, content))

    @strawberry.mutation(
        description="By its sender within 120 s (RECALL_TIMEOUT after that), or at any time by a group's owner or admin. The row "
        "stays; its content is withheld from then on. A second recall answers the message unchanged; a SYSTEM message: "
        "INVALID_INPUT."
    )
    async def recall_message(self, info: Info, message_id: strawberry.ID) -> MessageType:
        return message_from(await revising.recall_message(info.context.app, info.context.viewer, message_id))


def _new_message(input: SendMessageInput) -> NewMessage:
    return NewMessage(
        to_user=input.to_user_id,
        conversation=input.conversation_id,
        content=input.content,
        kind=(input.content_type or ContentType.TEXT).value,
        mentions=tuple(input.mentions or ()),
        mention_all=bool(input.mention_all),
        reply_to=input.reply_to_id,
        key=input.idempotency_key,
        sub_biz=input.sub_biz,
    )
