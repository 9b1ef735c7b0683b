"""Publications of stored revisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from store.base.ids import UserId
from store.messages.message import Message
from store.messages.revision_store import Revision


@dataclass(slots=True)
class OutboxedRevision:
    """A revision's entry in the outbox. It stays until all publications of the revision are complete."""

    revision: Revision
    incomplete: int

    def complete_one(self) -> bool:
        """Note that a publication is complete. Return whether it was the last one."""
        self.incomplete -= 1
        return self.incomplete == 0


@dataclass(slots=True)
class Publication:
    """A stored revision that is being published: of a message, or of the copy that follows a reply."""

    message: Message
    revision: Revision
    outboxed: OutboxedRevision
    at_ms: int
    stored_at: int
    """`at_ms` if MongoDB has stored it as the time at which sessions moved; else 0."""
    began: float
    """On the event loop's clock."""
    recovered: bool = False
    """True if a server that has died began to publish it."""
    recalled_count: int = 0
    """Of a thread whose reply was recalled, the number of recalled replies."""
    remaining: list[UserId] = field(default_factory=list)
    watchers: frozenset[UserId] = frozenset()
    """Viewers who look at the thread and do not follow it."""
