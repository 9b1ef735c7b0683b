"""Checks of new messages: destination, mentions, and the message replied to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.conversations.access import access_conversation, left_conversation, may_be_in, no_conversation
from resolvers.conversations.visibility import is_visible
from resolvers.messages.given_embeds import NewEmbed
from resolvers.messages.mention_errors import mentioned_outsider, unknown_role
from resolvers.messages.replying import Destination, access_thread_destination, find_thread_destination
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
    without_thread,
)
from store.base.workspace_ids import RoleId, is_in_workspace, workspace_of, workspace_of_channel
from store.messages.message import MessageKind
from store.users.erased_users import is_pseudonym

MAX_MENTIONS = 5_000
MAX_MENTIONED_ROLES = 250
"""A workspace has no more roles."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that a caller wants to send. Exactly one of to_user, conversation and thread_of is set."""

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
    thread_of: str | None = None
    """The message to whose thread this is a reply."""
    is_broadcast: bool = False
    """The reply is also shown in the parent conversation."""
    suppresses_embeds: bool = False
    """No link previews."""
    embeds: tuple[NewEmbed, ...] = ()
    """Given by a bot or a service."""
    attachments: tuple[str, ...] = ()
    """Ids of files."""
    is_silent: bool = False
    """Nobody gets a push for it."""
    author: tuple[str | None, str | None] | None = None
    """From an incoming webhook: name and picture to show, None for those of the webhook."""


async def resolve_destination(app: Confab, sender: UserId, new: NewMessage) -> Destination:
    """Return the conversation that a message goes to. Raises InvalidInput, NotFound, NotAMember."""
    destination = await _resolve_destination(app, sender, new)
    _refuse_erased(app, sender, without_thread(destination.conversation))
    return destination


async def _resolve_destination(app: Confab, sender: UserId, new: NewMessage) -> Destination:
    if [new.to_user, new.conversation, new.thread_of].count(None) != 2:
        raise InvalidInput("give exactly one of toUserId, conversationId and threadOf")
    if new.sub_biz is not None and new.to_user is None:
        raise InvalidInput("subBiz needs toUserId; leave it out otherwise", field="subBiz")
    if new.is_broadcast and new.thread_of is None:
        raise InvalidInput("broadcast needs threadOf; leave it out otherwise", field="broadcast")
    by_service = new.kind is MessageKind.SYSTEM
    if new.thread_of is not None:
        return await find_thread_destination(app, sender, new.thread_of, by_service=by_service)
    conversation = await _resolve_conversation(app, sender, new)
    if kind_of(conversation) is ConversationKind.THREAD:
        return await access_thread_destination(app, sender, conversation, by_service=by_service)
    return Destination(conversation)


async def _resolve_conversation(app: Confab, sender: UserId, new: NewMessage) -> ConversationId:
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


def _refuse_erased(app: Confab, sender: UserId, conversation: ConversationId) -> None:
    """Raise NotFound for a private conversation whose other user was erased, or is being erased."""
    for person in (parse_private(conversation) or ())[:2]:
        if (
            person is not None
            and person != sender
            and (is_pseudonym(person) or app.revocations.is_being_erased(person))
        ):
            raise no_conversation()


def check_mentions(conversation: ConversationId, new: NewMessage) -> tuple[UserId, ...]:
    """Return the mentioned users, once each. Raises InvalidInput. Members of groups are checked at the reservation."""
    mentions = tuple(dict.fromkeys(UserId(user) for user in new.mentions))
    if len(mentions) > MAX_MENTIONS:
        raise InvalidInput(f"mention at most {MAX_MENTIONS} users", field="mentions")
    if not all(is_user_id(user) for user in mentions):
        raise mentioned_outsider()
    people = parse_private(without_thread(conversation))
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
    if not is_in_workspace(conversation):
        raise InvalidInput("mentionRoleIds is for channels only", field="mentionRoleIds")
    if len(roles) > MAX_MENTIONED_ROLES:
        raise InvalidInput(f"mention at most {MAX_MENTIONED_ROLES} roles", field="mentionRoleIds")
    workspace = workspace_of_channel(conversation)
    if not all(workspace_of(role, "r") == workspace for role in roles):
        raise unknown_role()
    return roles


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
        # A thread that somebody names by a message may have no replies yet.
        may_be_new = new.thread_of is not None or kind_of(conversation) is ConversationKind.PRIVATE
        if access is None and not may_be_new:
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
    if new.is_broadcast:
        parts.append({"broadcast": True})
    if new.suppresses_embeds:
        parts.append({"suppressEmbeds": True})
    if new.embeds:
        parts.append({"embeds": [list(embed) for embed in new.embeds]})
    if new.attachments:
        parts.append({"attachments": new.attachments})
    if new.is_silent:
        parts.append({"silent": True})
    if new.author is not None:
        parts.append({"author": new.author})
    return hashlib.blake2b(orjson.dumps(parts), digest_size=12).hexdigest()
