"""Replies in threads: the thread that a reply goes to, its place, and the errors for replies that get none."""

from __future__ import annotations

from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.errors import ConfabError, Forbidden, InvalidInput, NotFound, Unavailable
from resolvers.blocks.checks import blocked_error
from resolvers.conversations.access import access_conversation, left_conversation, no_conversation
from resolvers.messages.channel_sending import error_for, slow_mode_error
from resolvers.messages.history import find_with_access
from resolvers.messages.mention_errors import mentioned_outsider
from store.base.ids import (
    ConversationId,
    ConversationKind,
    UserId,
    kind_of,
    parse_message_id,
    parse_thread,
    thread_id,
    without_thread,
)
from store.channels.sending.sending_rights import SendingRefusal
from store.messages.message import Message, MessageKind, ReservedMessage
from store.messages.outbox.places import Refusal, SlowModeWait

_FIELD = "threadOf"


class Destination(NamedTuple):
    """The conversation that a message goes to.

    Attributes:
        conversation: The conversation.
        parent: Of a thread, its parent message. None: a service writes a SYSTEM message there.
    """

    conversation: ConversationId
    parent: Message | None = None


async def find_thread_destination(app: Confab, sender: UserId, message: str, *, by_service: bool) -> Destination:
    """Return the thread of a message. The thread of a reply is the one that it is in, also if its copy is named.

    No round trip for a user who has replied to the same message before. by_service: a service writes a SYSTEM message,
    which needs no access.

    Raises NotFound, NotAMember, and InvalidInput for a message that has no thread.
    """
    known = app.known_parents.find(sender, message)
    if known is not None:
        return Destination(thread_id(known.conversation, known.seq), known)
    found = await _find_by_service(app, message) if by_service else await _find_visible(app, sender, message)
    if found is None:
        raise NotFound("there is no such message, or you can't see it", field=_FIELD)
    return await _find_thread(app, found)


async def find_thread_in_channel(app: Confab, channel: ConversationId, message: str) -> Destination:
    """Return the thread of a message in the channel of an incoming webhook.

    Raises NotFound for messages elsewhere, and InvalidInput for a message that has no thread.
    """
    found = await _find_by_service(app, message)
    if found is None or without_thread(found.conversation) != channel:
        raise NotFound("there is no such message in the channel of this webhook", field=_FIELD)
    return await _find_thread(app, found)


async def _find_thread(app: Confab, found: Message) -> Destination:
    """Return the thread of a message. Raises InvalidInput for a message that has no thread."""
    is_reply = kind_of(found.conversation) is ConversationKind.THREAD
    parent: Message | None = found
    if is_reply:
        parent = await _find_parent(app, found.conversation)
    elif found.broadcast_of is not None:
        thread = thread_id(found.conversation, found.broadcast_of.parent_seq)
        is_reply, parent = True, await _find_parent(app, thread)
    if parent is None or found.kind is MessageKind.SYSTEM:
        raise InvalidInput("a SYSTEM message has no thread; name another message", field=_FIELD)
    if parent.is_recalled and not is_reply and not await _has_replies(app, parent):
        raise InvalidInput("a thread can't begin under a recalled message; name another message", field=_FIELD)
    return Destination(thread_id(parent.conversation, parent.seq), parent)


async def access_thread_destination(
    app: Confab, sender: UserId, thread: ConversationId, *, by_service: bool
) -> Destination:
    """Return a thread that a sender has named by its id. Like `find_thread_destination`."""
    if by_service:
        return Destination(thread)
    parent = app.known_parents.find(sender, thread)
    if parent is None:
        access = await access_conversation(app, sender, thread)
        if access is None:
            raise no_conversation()
        if not access.is_current:
            raise left_conversation()
        parent = await _find_parent(app, thread)
        if parent is None:
            raise no_conversation()
    return Destination(thread, parent)


async def _find_by_service(app: Confab, message: str) -> Message | None:
    """Return a message. The reservation refuses replies to an expired one."""
    wanted = parse_message_id(message)
    return (await app.store.messages.find_by_ids([wanted])).get(wanted) if wanted is not None else None


async def _find_visible(app: Confab, sender: UserId, message: str) -> Message | None:
    """Return a message that the sender can read. Raises NotAMember."""
    found = await find_with_access(app, sender, message)
    if found is None or not found[1].shows(found[0]):
        return None
    if not found[1].is_current:
        raise left_conversation(_FIELD)
    return found[0]


async def _find_parent(app: Confab, thread: ConversationId) -> Message | None:
    """Return the parent message of a thread."""
    place = parse_thread(thread)
    assert place is not None
    return (await app.store.messages.find_many([place])).get((place.parent, place.seq))


async def _has_replies(app: Confab, parent: Message) -> bool:
    head = await app.store.conversations.find(thread_id(parent.conversation, parent.seq)) if parent.has_thread else None
    return head is not None and head.newest is not None


async def reserve_in_thread(
    app: Confab, message: Message, parent: Message | None, named: str, field: str
) -> ReservedMessage | None:
    """Reserve a place for a reply. None if another request has reserved one for it.

    Args:
        app: The application.
        message: The reply.
        parent: The parent message. None: a service writes a SYSTEM message into a thread that exists.
        named: The id by which the sender named the thread.
        field: The input that has this id.

    Raises:
        NotFound, NotAMember, Forbidden, Archived, SlowModeActive, Blocked, InvalidInput, Unavailable, Unreachable:
            Nothing was stored.
    """
    place = await app.store.reply_places.reserve(message, parent)
    if isinstance(place, ReservedMessage):
        if parent is not None and message.kind.countable:
            app.known_parents.remember(message.sender, named, parent)
        return place
    if place is Refusal.ALREADY_RESERVED:
        return None
    raise _error_for(place, field)


def _error_for(refusal: Refusal | SendingRefusal | SlowModeWait, field: str) -> ConfabError:
    match refusal:
        case SlowModeWait():
            return slow_mode_error(refusal)
        case SendingRefusal():
            return error_for(refusal, field)
        case Refusal.NOT_A_MEMBER | Refusal.HIDDEN:
            return no_conversation(field)
        case Refusal.FORMER_MEMBER:
            return left_conversation(field)
        case Refusal.BLOCKED:
            return blocked_error()
        case Refusal.FORBIDDEN:
            return Forbidden("only the owner or an admin of the group may use mentionAll", field="mentionAll")
        case Refusal.MENTION_NOT_A_MEMBER:
            return mentioned_outsider()
        case Refusal.LOCKED:
            return Forbidden("this thread is locked: only moderators and the sender of its message write", field=field)
        case Refusal.NO_THREAD if field == _FIELD:
            return InvalidInput("a SYSTEM message can't begin a thread; reply to it first", field=field)
        case Refusal.NO_THREAD:
            return no_conversation(field)
        case Refusal.MAY_NOT_CREATE:
            return Forbidden("beginning a thread needs the permission CREATE_THREADS", field=field)
        case _:
            return Unavailable("the thread could not be loaded; please try again")
