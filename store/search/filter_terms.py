"""Terms that filters compare. They begin with a control character, so no word equals them (ADR 85)."""

from __future__ import annotations

from enum import StrEnum

from store.base.ids import UserId
from store.messages.message import Message
from store.previews.links import has_link
from store.text.words import terms_of

_MARK = "\x01"


class ContentKind(StrEnum):
    """Content of a message in addition to words. The values are those of SearchHas in the GraphQL schema."""

    FILE = "FILE"
    IMAGE = "IMAGE"
    VIDEO = "VIDEO"
    LINK = "LINK"


EVERYBODY_TERM = f"{_MARK}e"
"""The term of messages that mention everybody."""

ANY_ROLE_TERM = f"{_MARK}r"
"""The term of messages that mention a role. Whether the reader has the role is checked when the message is read."""


def sender_term(user: UserId) -> str:
    """Return the term of messages from a user."""
    return f"{_MARK}s{user}"


def mention_term(user: UserId) -> str:
    """Return the term of messages that mention a user by name."""
    return f"{_MARK}m{user}"


def content_term(kind: ContentKind) -> str:
    """Return the term of messages with some kind of content."""
    return f"{_MARK}h{kind.value}"


def is_filter_term(term: str) -> bool:
    """Return whether a term belongs to a filter, and not to a text."""
    return term.startswith(_MARK)


def contains(message: Message, kind: ContentKind) -> bool:
    """Return whether a message has some kind of content. FILE: any attachment. LINK: an address in its text."""
    match kind:
        case ContentKind.FILE:
            return bool(message.attachments)
        case ContentKind.IMAGE:
            return any(attachment.content.content_type.startswith("image/") for attachment in message.attachments)
        case ContentKind.VIDEO:
            return any(attachment.content.content_type.startswith("video/") for attachment in message.attachments)
        case ContentKind.LINK:
            return bool(message.text and has_link(message.text))


def filter_terms(message: Message) -> set[str]:
    """Return the terms of a message's sender, of the users and roles it mentions, and of what it contains."""
    terms = {sender_term(message.sender)}
    terms.update(map(mention_term, message.shown_mentions))
    if message.shown_roles:
        terms.add(ANY_ROLE_TERM)
    if message.shows_mention_of_all:
        terms.add(EVERYBODY_TERM)
    terms.update(content_term(kind) for kind in ContentKind if contains(message, kind))
    return terms


def is_indexed(message: Message) -> bool:
    """Return whether a message belongs in the index: it has text, and is not a SYSTEM message."""
    return bool(message.text) and message.kind.countable


def message_terms(message: Message) -> set[str]:
    """Return all terms of a message, including `filter_terms`. Empty if no search can find it.

    Every search has a word. So messages that are not indexed, and those without words, have no terms.
    """
    if not is_indexed(message):
        return set()
    words = terms_of(message.text or "")
    return words | filter_terms(message) if words else words
