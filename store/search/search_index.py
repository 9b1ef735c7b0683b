"""The interface of an index of messages (ADR 85)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from store.base.ids import ConversationId, MessageId
from store.messages.message import Message


class Proposal(NamedTuple):
    """The place of a message that may match."""

    id: MessageId
    conversation: ConversationId
    seq: int


@dataclass(frozen=True, slots=True)
class SearchCriteria:
    """Conditions for the messages that an index proposes. All of them apply.

    Attributes:
        conversations: The messages are in one of these.
        terms: They have all of these terms: of their text, or of `store/search/filter_terms.py`.
        any_of: They have at least one term of each of these groups.
        beginning: They have a term that begins with this text; "": no condition.
        first_id: Their ids are at least this.
        before_id: Their ids are below this; None: no bound.
        limit: Number of messages that the caller needs. An index may propose more or fewer.
    """

    conversations: Sequence[ConversationId]
    terms: Sequence[str]
    any_of: Sequence[Sequence[str]]
    beginning: str
    first_id: int
    before_id: int | None
    limit: int


class Proposals(NamedTuple):
    """Proposals of an index: newest ids first, each id once.

    Attributes:
        found: The proposals.
        next_id: `found` has all proposals with this id or a higher one. To continue, ask again with it as `before_id`.
            None: there are no others.
    """

    found: list[Proposal]
    next_id: int | None


class SearchIndex(Protocol):
    """An index of messages. It may propose messages that do not match, or that do not exist any more."""

    async def propose(self, criteria: SearchCriteria, seconds: float) -> Proposals:
        """Return the newest messages that may match. One round trip, with rare exceptions.

        Args:
            criteria: Conditions for the messages.
            seconds: Time that the database may take.

        Raises:
            TooSlow: It took longer than `seconds`.
            Unreachable: The index does not answer.
        """

    async def index(self, messages: Sequence[Message], rebuild: int) -> None:
        """Add messages. Those without words are left out. Adding a message again is harmless.

        rebuild: Number of the current rebuild (see `forget_earlier`).
        """

    async def forget(self, conversation: ConversationId) -> None:
        """Remove all messages of a conversation."""

    async def forget_messages(self, conversation: ConversationId, ids: Collection[MessageId]) -> None:
        """Remove some messages of a conversation. Others that shared a row with them stay indexed."""

    async def forget_earlier(self, rebuild: int) -> None:
        """Remove the messages that were added under lower rebuild numbers, in steps."""


class TooSlow(Exception):
    """Raised if an index does not answer within the time that it was given."""
