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
class Wanted:
    """Messages that are looked for.

    Attributes:
        conversations: They are in one of these.
        terms: They have all of these terms. Those of `store/search/filter_terms.py` are among them.
        any_of: Of each of these groups of terms they have at least one.
        beginning: They have a term that begins with it; "": any.
        first_id: Their ids are at least this.
        before_id: Their ids are below this; None: no bound.
        limit: Number of messages that the caller hopes for.
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
        next_id: All proposals with ids from this on are in `found`. Ask again with it as `before_id`. None: there are
            no others.
    """

    found: list[Proposal]
    next_id: int | None


class SearchIndex(Protocol):
    """An index of messages. It may propose messages that do not match, or that do not exist any more."""

    async def propose(self, wanted: Wanted, seconds: float) -> Proposals:
        """Return the newest messages that may match. One round trip, with rare exceptions.

        Args:
            wanted: What is looked for.
            seconds: Time that the database may take.

        Raises:
            TooSlow: The time was over.
            Unreachable: The index does not answer.
        """

    async def index(self, messages: Sequence[Message], rebuild: int) -> None:
        """Add messages. Those without text are left out. Adding a message again is harmless.

        rebuild: The number of the current rebuild.
        """

    async def forget(self, conversation: ConversationId) -> None:
        """Remove all messages of a conversation."""

    async def forget_messages(self, conversation: ConversationId, ids: Collection[MessageId]) -> None:
        """Remove some messages of a conversation. Others that shared a row with them stay indexed."""

    async def forget_earlier(self, rebuild: int) -> None:
        """Remove what belongs to earlier rebuilds, in steps."""


class TooSlow(Exception):
    """Raised if an index had not enough time."""
