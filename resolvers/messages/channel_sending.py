"""Sending to channels, with the errors for messages that get no place."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import ConfabError, Forbidden, NotFound, SlowModeActive, Unavailable
from resolvers.content_rules.rejections import rejected
from resolvers.conversations.access import no_conversation
from resolvers.conversations.channel_access import writing_error
from resolvers.messages.mention_errors import mentioned_outsider, unknown_role
from store.channels.sending.sending_rights import SendingRefusal
from store.messages.message import Message, ReservedMessage
from store.messages.outbox.places import Refusal, SlowModeWait


async def reserve_in_channel(app: Confab, message: Message) -> ReservedMessage | None:
    """Reserve a place for a message in a channel. None if another request has reserved one for it.

    Raises NotFound, Forbidden, Archived, SlowModeActive, InvalidInput, Unavailable: then nothing was stored.
    """
    place = await app.store.channel_places.reserve(message)
    match place:
        case ReservedMessage():
            return place
        case Refusal.ALREADY_RESERVED:
            return None
        case SlowModeWait():
            raise slow_mode_error(place)
        case SendingRefusal():
            raise error_for(place)
        case _:
            raise Unavailable("the rights in the channel change too often; please try again")


def slow_mode_error(wait: SlowModeWait) -> SlowModeActive:
    """Return the error for a sender who has to wait."""
    return SlowModeActive("this channel has slow mode; wait before you send again", retry_after_ms=wait.wait_ms)


def error_for(refusal: SendingRefusal, field: str = "conversationId") -> ConfabError:
    """Return the error for a message that its sender may not send. field: the input that names the conversation."""
    match refusal:
        case SendingRefusal.NOT_VISIBLE:
            return no_conversation(field)
        case SendingRefusal.NO_WEBHOOK:
            return NotFound("there is no such webhook")
        case SendingRefusal.NEEDS_ATTACH_FILES:
            return Forbidden("sending files needs the permission ATTACH_FILES", field="attachmentIds")
        case SendingRefusal.MENTIONS_EVERYONE:
            return Forbidden("mentionAll needs the permission MENTION_EVERYONE", field="mentionAll")
        case SendingRefusal.ROLE_NOT_MENTIONABLE:
            return Forbidden(
                "mentioning a role that is not mentionable needs the permission MENTION_EVERYONE",
                field="mentionRoleIds",
            )
        case SendingRefusal.CONTENT:
            return rejected()
        case SendingRefusal.CONTENT_TIMEOUT:
            return rejected(with_timeout=True)
        case SendingRefusal.UNKNOWN_ROLE:
            return unknown_role()
        case SendingRefusal.MENTIONS_OUTSIDER:
            return mentioned_outsider()
        case _:
            return writing_error(refusal, field)
