"""Terms for what filters compare. They begin with a control character, so they are no words (ADR 85)."""

from __future__ import annotations

from enum import StrEnum

from store.base.ids import UserId
from store.messages.message import Message, MessageKind
from store.previews.links import has_link
from store.text.words import terms_of

_MARK = "\x01"


class Contained(StrEnum):
    """Things that a message can have in addition to words. The values are those of the contract's SearchHas."""

    FILE = "FILE"
    IMAGE = "IMAGE"
    VIDEO = "VIDEO"
    LINK = "LINK"


EVERYBODY_TERM = f"{_MARK}e"
"""The term of messages that mention everybody."""

ANY_ROLE_TERM = f"{_MARK}r"
"""The term of messages that mention a role. Whether a reader has the role is found out when the message is read."""


def sender_term(user: UserId) -> str:
    """Return the term of messages from a user."""
    return f"{_MARK}s{user}"


def mention_term(user: UserId) -> str:
    """Return the term of messages that mention a user by name."""
    return f"{_MARK}m{user}"


def contained_term(contained: Contained) -> str:
    """Return the term of messages that contain something."""
    return f"{_MARK}h{contained.value}"


def is_filter_term(term: str) -> bool:
    """Return whether a term is none of a text."""
    return term.startswith(_MARK)


def contains(message: Message, contained: Contained) -> bool:
    """Return whether a message contains something. FILE: any attachment. LINK: an address in its text."""
    match contained:
        case Contained.FILE:
            return bool(message.attachments)
        case Contained.IMAGE:
            return any(attachment.content.content_type.startswith("image/") for attachment in message.attachments)
        case Contained.VIDEO:
            return any(attachment.content.content_type.startswith("video/") for attachment in message.attachments)
        case Contained.LINK:
            return bool(message.text and has_link(message.text))


def filter_terms(message: Message) -> set[str]:
    """Return the terms of a message's sender, of the users and roles it mentions, and of what it contains."""
    terms = {sender_term(message.sender)}
    terms.update(map(mention_term, message.shown_mentions))
    if message.shown_roles:
        terms.add(ANY_ROLE_TERM)
    if message.shows_mention_of_all:
        terms.add(EVERYBODY_TERM)
    terms.update(contained_term(contained) for contained in Contained if contains(message, contained))
    return terms


def message_terms(message: Message) -> set[str]:
    """Return all terms of a message, those of `filter_terms` too. Empty if no search can find it.

    Searches need a word. So announcements, recalled messages, and messages without words have no terms.
    """
    if message.kind is MessageKind.SYSTEM or not message.text:
        return set()
    words = terms_of(message.text)
    return words | filter_terms(message) if words else words
