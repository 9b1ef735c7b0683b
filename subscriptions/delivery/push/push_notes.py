"""Notes the conversations of delivered messages for the workers of pushes (ADR 87)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store.base.ids import UserId
from store.messages.message import Message
from store.messages.revision_store import RevisionKind
from store.messages.system_events import SystemEventKind
from store.redis.cache import Call
from store.store import Store
from subscriptions.delivery.push.stale_notifications import StaleNotifications

_DEPARTURES = (SystemEventKind.MEMBER_LEFT, SystemEventKind.MEMBER_REMOVED)


class PushNotes:
    """Notes new and recalled messages for pushes. Nothing is noted if no push service is set up."""

    def __init__(self, store: Store, stale: StaleNotifications, *, is_enabled: bool) -> None:
        """Connect the parts. is_enabled: a push service is set up."""
        self._store = store
        self._stale = stale
        self.is_enabled = is_enabled
        self.on_noted: Callable[[], None] = lambda: None
        """Called after notes were written. Set it before the first message."""

    def note_calls(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> list[Call]:
        """See `MessageNotes`: one call for each key. Silent messages and SYSTEM messages are not noted.

        Of revisions only recalls are noted.
        """
        noted = self._select(messages, revision)
        return self._store.noted_conversations.note_calls(noted, are_recalled=revision is not None) if noted else []

    def take(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> None:
        """See `MessageNotes`. Also removes the notifications of senders, and of members who have left."""
        if not self.is_enabled:
            return
        if revision is None:
            for message in messages:
                for user in _readers(message):
                    self._stale.add(user, [message.conversation])
        if self._select(messages, revision):
            self.on_noted()

    def _select(self, messages: Sequence[Message], revision: RevisionKind | None) -> Sequence[Message]:
        if not self.is_enabled:
            return ()
        if revision is None:
            return [message for message in messages if message.kind.countable and not message.is_silent]
        return messages if revision is RevisionKind.RECALL else ()


def _readers(message: Message) -> Sequence[UserId]:
    """Return the users who need no notification of the conversation any more."""
    if message.kind.countable:
        return (message.sender,)
    has_departure = message.system_event is not None and message.system_event.kind in _DEPARTURES
    return (message.sender, *message.mentions) if has_departure else ()
