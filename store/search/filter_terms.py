"""Terms for what filters compare. They begin with a control character, so they are no words (ADR 85)."""

from __future__ import annotations

from enum import StrEnum

from store.base.ids import UserId
from store.messages.message import Message


class Contained(StrEnum):
    """Parts of a message that a filter can ask for. The values are those of the contract's SearchHas."""

    FILE = "FILE"
    IMAGE = "IMAGE"
    VIDEO = "VIDEO"
    LINK = "LINK"


def sender_term(user: UserId) -> str:
    """Return the term of messages from a user."""
    raise NotImplementedError


def contained_term(contained: Contained) -> str:
    """Return the term of messages that contain something."""
    raise NotImplementedError


def contains(message: Message, contained: Contained) -> bool:
    """Return whether a message contains something. FILE: any attachment. LINK: an address in its text."""
    raise NotImplementedError


def message_terms(message: Message) -> set[str]:
    """Return all terms of a message: of its text, its sender, the users and roles it mentions, and what it contains."""
    raise NotImplementedError
