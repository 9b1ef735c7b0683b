"""The mutation that sends a message."""

from __future__ import annotations

import asyncio
from typing import Any

import strawberry

from resolvers.base.errors import Unavailable
from resolvers.messages import sending
from resolvers.messages.new_messages import NewMessage
from resolvers.users.callers import CallerRole
from schema.base.context import Info
from schema.base.scalars import JSON
from schema.compiler import then
from schema.messages.message_types import ContentType, MessageType, message_from
from schema.sending.embed_input_types import EmbedInput
from schema.sessions.session_types import SessionType, session_from
from store.sessions.session import Session


@strawberry.input(
    description="Exactly one of toUserId, conversationId and threadOf. toUserId opens the private conversation (inside "
    "subBiz, if given) if there is none."
)
class SendMessageInput:
    to_user_id: strawberry.ID | None = None
    conversation_id: strawberry.ID | None = None
    thread_of: strawberry.ID | None = strawberry.field(
        default=None,
        description="Reply in the thread of this message, which comes into being with its first reply.",
    )
    broadcast: bool | None = strawberry.field(
        default=False,
        description="With threadOf: also show it in the conversation. One message in two places: one text, one edit, "
        "one recall.",
    )
    sub_biz: str | None = strawberry.field(default=None, description="With toUserId only; [a-z0-9-]{1,32}.")
    content: str = strawberry.field(
        description="1 to 4000 characters (Unicode code points), not only white space, no NUL. With attachments it "
        "may be empty. A message to oneself: INVALID_INPUT."
    )
    content_type: ContentType | None = ContentType.TEXT
    metadata: JSON | None = None
    mentions: list[strawberry.ID] | None = strawberry.field(
        default_factory=list,
        description="Members of the conversation only (INVALID_INPUT); in a channel: people who can see it.",
    )
    mention_all: bool | None = strawberry.field(
        default=False,
        description="In a group: OWNER and ADMIN (FORBIDDEN). In a channel: MENTION_EVERYONE. In a private "
        "conversation: INVALID_INPUT.",
    )
    mention_role_ids: list[strawberry.ID] | None = strawberry.field(
        default_factory=list, description="In a channel: mentionable roles (others need MENTION_EVERYONE)."
    )
    reply_to_id: strawberry.ID | None = strawberry.field(
        default=None, description="A message of the same conversation that the sender can see (INVALID_INPUT)."
    )
    attachment_ids: list[strawberry.ID] | None = strawberry.field(
        default_factory=list,
        description="The sender's own files that are READY (INVALID_INPUT), at most 10. A file goes into one message.",
    )
    silent: bool | None = strawberry.field(default=False, description="No push notification to anybody.")
    suppress_embeds: bool | None = strawberry.field(default=False, description="No link previews.")
    embeds: list[EmbedInput] | None = strawberry.field(
        default_factory=list, description="Bots and service callers only (FORBIDDEN); at most 10."
    )
    idempotency_key: str | None = None

    def to_new_message(self) -> NewMessage:
        """Return the input with its defaults filled in."""
        return NewMessage(
            to_user=self.to_user_id,
            conversation=self.conversation_id,
            thread_of=self.thread_of,
            is_broadcast=bool(self.broadcast),
            content=self.content,
            kind=(self.content_type or ContentType.TEXT).value,
            mentions=tuple(self.mentions or ()),
            mention_all=bool(self.mention_all),
            reply_to=self.reply_to_id,
            key=self.idempotency_key,
            sub_biz=self.sub_biz,
            metadata=self.metadata,
            mentioned_roles=tuple(self.mention_role_ids or ()),
            attachments=tuple(self.attachment_ids or ()),
            is_silent=bool(self.silent),
            suppresses_embeds=bool(self.suppress_embeds),
            embeds=tuple(embed.to_new_embed() for embed in self.embeds or ()),
        )


@strawberry.type
class SendMessagePayload:
    result: strawberry.Private[sending.SendResult]
    message: MessageType
    replayed: bool

    @strawberry.field
    def session(self, info: Info) -> SessionType:
        context, message = info.context, self.result.message
        if self.result.session is not None:
            return session_from(self.result.session)

        def check(found: Session | None) -> Any:
            found = found or sending.make_service_session(message)
            if found is not None and sending.has_message(found, message):
                return session_from(found)
            # The fan-out failed, and the cached state is older than the message.
            return then(asyncio.ensure_future(sending.find_sender_session(context.app, message)), _sender_session)

        return then(context.loaders.sessions.load(message.conversation), check)


def _sender_session(session: Session | None) -> SessionType:
    """Return the GraphQL object of the sender's session.

    Raises:
        Unavailable: The session is not there yet, because the databases did not answer.
    """
    if session is None:
        raise Unavailable("the message is stored but cannot be read yet; try again")
    return session_from(session)


@strawberry.type
class SendingMutations:
    @strawberry.mutation(
        description="Durable (majority, journaled) before it is answered. Sending marks the conversation as read: the "
        "sender's readSeq becomes the message's seq and others receive receipts, without a SyncSession or "
        "ReceiptAdvanced to the sender. idempotencyKey: 1 to 128 characters, kept for 24 hours per sender across all "
        "conversations. The same key with the same input answers the original message with replayed: true and stores "
        "nothing; with any other input: IDEMPOTENCY_CONFLICT."
    )
    async def send_message(self, info: Info, input: SendMessageInput) -> SendMessagePayload:
        context = info.context
        assert context.caller is not None
        result = await sending.send_message(
            context.app,
            context.viewer,
            input.to_new_message(),
            by_service=context.caller.role is CallerRole.SERVICE,
        )
        return SendMessagePayload(result=result, message=message_from(result.message), replayed=result.replayed)
