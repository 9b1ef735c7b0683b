"""Checks of new messages: destination, mentions, and the message replied to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.conversations.access import access_conversation, left_conversation, may_be_in, no_conversation
from resolvers.conversations.visibility import is_visible
from store.base.ids import (
    ConversationId,
    ConversationKind,
    MessageId,
    UserId,
    is_user_id,
    kind_of,
    parse_message_id,
    parse_private,
    private_id,
)
from store.base.workspace_ids import RoleId, workspace_of, workspace_of_channel
from store.messages.message import MessageKind

MAX_MENTIONS = 5_000
MAX_MENTIONED_ROLES = 250
"""A workspace has no more roles."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that a caller wants to send. Exactly one of to_user and conversation is set."""

    to_user: str | None
    conversation: str | None
    content: str
    kind: MessageKind = MessageKind.TEXT
    mentions: tuple[str, ...] = ()
    mention_all: bool = False
    reply_to: str | None = None
    key: str | None = None
    sub_biz: str | None = None
    metadata: object = None
    """A JSON value."""
    mentioned_roles: tuple[str, ...] = ()


async def resolve_destination(app: Confab, sender: UserId, new: NewMessage) -> ConversationId:
    """Return the conversation that a message goes to. Raises InvalidInput, NotFound."""
    if (new.to_user is None) == (new.conversation is None):
        raise InvalidInput("give exactly one of toUserId and conversationId")
    if new.sub_biz is not None and new.to_user is None:
        raise InvalidInput("subBiz needs toUserId; leave it out with conversationId", field="subBiz")
    if new.to_user is not None:
        if new.to_user == sender:
            raise InvalidInput("you can't send a message to yourself; name another user", field="toUserId")
        peer = UserId(new.to_user)
        if not is_user_id(peer) or await app.store.users.find(peer) is None:
            raise NotFound("there is no such user", field="toUserId")
        return private_id(sender, peer, new.sub_biz)
    conversation = ConversationId(new.conversation or "")
    if conversation == private_id(sender, sender):
        raise InvalidInput("you can't send a message to yourself; name another user", field="conversationId")
    if kind_of(conversation) in (None, ConversationKind.SUB_BIZ):
        raise no_conversation()
    # The membership of groups is checked at the reservation.
    if new.kind is not MessageKind.SYSTEM and not may_be_in(sender, conversation):
        raise no_conversation()
    return conversation


def mentioned_outsider() -> InvalidInput:
    """Return the error for a mention of a user who is not in the conversation."""
    return InvalidInput("mention members of the conversation only", field="mentions")


def check_mentions(conversation: ConversationId, new: NewMessage) -> tuple[UserId, ...]:
    """Return the mentioned users, once each. Raises InvalidInput. Members of groups are checked at the reservation."""
    mentions = tuple(dict.fromkeys(UserId(user) for user in new.mentions))
    if len(mentions) > MAX_MENTIONS:
        raise InvalidInput(f"mention at most {MAX_MENTIONS} users", field="mentions")
    if not all(is_user_id(user) for user in mentions):
        raise mentioned_outsider()
    people = parse_private(conversation)
    if people is not None:
        if new.mention_all:
            raise InvalidInput("mentionAll is for groups only", field="mentionAll")
        if not set(mentions) <= set(people[:2]):
            raise mentioned_outsider()
    return mentions


def check_mentioned_roles(conversation: ConversationId, new: NewMessage) -> tuple[RoleId, ...]:
    """Return the mentioned roles, once each. Raises InvalidInput for ids of other workspaces.

    The roles themselves are checked before the reservation.
    """
    roles = tuple(dict.fromkeys(RoleId(role) for role in new.mentioned_roles))
    if not roles:
        return ()
    if kind_of(conversation) is not ConversationKind.CHANNEL:
        raise InvalidInput("mentionRoleIds is for channels only", field="mentionRoleIds")
    if len(roles) > MAX_MENTIONED_ROLES:
        raise InvalidInput(f"mention at most {MAX_MENTIONED_ROLES} roles", field="mentionRoleIds")
    workspace = workspace_of_channel(conversation)
    if not all(workspace_of(role, "r") == workspace for role in roles):
        raise unknown_role()
    return roles


def unknown_role() -> InvalidInput:
    """Return the error for a mention of a role that the workspace of the channel does not have."""
    return InvalidInput("mentionRoleIds must name roles of this workspace", field="mentionRoleIds")


async def find_reply_target(
    app: Confab, sender: UserId, conversation: ConversationId, new: NewMessage
) -> tuple[MessageId, int] | None:
    """Return id and seq of the message that is replied to; None if it is no reply.

    Raises NotFound and NotAMember for a sender who can't write there, then InvalidInput.
    """
    if new.reply_to is None:
        return None
    access = await access_conversation(app, sender, conversation)
    if new.kind is not MessageKind.SYSTEM:
        if access is None and kind_of(conversation) is not ConversationKind.PRIVATE:
            raise no_conversation()
        if access is not None and not access.is_current:
            raise left_conversation()
    wanted = parse_message_id(new.reply_to)
    found = await app.store.messages.find_in_conversation(conversation, wanted) if wanted is not None else None
    if found is None or access is None or not is_visible(found.seq, access.ranges):
        raise InvalidInput("replyToId must name a message of this conversation that you can see", field="replyToId")
    return found.id, found.seq


def input_digest(
    conversation: ConversationId, new: NewMessage, mentions: tuple[UserId, ...], metadata: str | None
) -> str:
    """Return a digest of the input, after its destination is resolved and defaults are filled in.

    Parts that older servers don't know are left out if they are absent, so that all servers make the same digest.
    """
    parts: list[object] = [conversation, new.content, new.kind.value, sorted(mentions), new.mention_all, new.reply_to]
    if metadata is not None:
        parts.append({"metadata": metadata})
    if new.mentioned_roles:
        parts.append({"roles": sorted(set(new.mentioned_roles))})
    return hashlib.blake2b(orjson.dumps(parts), digest_size=12).hexdigest()
