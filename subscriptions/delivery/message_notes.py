"""Notes of messages for work that follows their delivery: search, pushes, webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from store.messages.message import Message
from store.messages.revision_store import RevisionKind
from store.redis.cache import Call


class MessageNotes(Protocol):
    """One kind of work that follows the delivery of messages.

    A note is made by the call that makes a message, or a revision of it, visible. Its outbox entry is removed later. So
    if a server dies, a message is in the outbox, or has its note, or its work is done. Notes may be made twice.
    """

    def note_calls(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> list[Call]:
        """Return calls that note messages as waiting. revision: what changed; None: they are new."""
        ...

    def take(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> None:
        """Take messages whose notes were made, to begin with their work soon. Returns at once."""
        ...


class AllMessageNotes:
    """Several kinds of work as one."""

    def __init__(self, *kinds: MessageNotes) -> None:
        self._kinds = kinds

    def note_calls(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> list[Call]:
        """See `MessageNotes`."""
        return [call for kind in self._kinds for call in kind.note_calls(messages, revision)]

    def take(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> None:
        """See `MessageNotes`."""
        for kind in self._kinds:
            kind.take(messages, revision)
