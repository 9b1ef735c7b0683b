"""One subscription to shared clocks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from store.base.ids import ConversationId, UserId, without_thread
from subscriptions.realtime.events.shared import ACTIVITY
from subscriptions.realtime.mailboxes import Mailbox, Position, QueueBudget
from subscriptions.realtime.shared.audience import Audience

if TYPE_CHECKING:
    from subscriptions.realtime.shared.shared_events import SharedEvents


class SharedSubscription:
    """The mailboxes of one subscription, and its places in the audiences of their owners."""

    def __init__(self, events: SharedEvents, user: UserId) -> None:
        """Begin without clocks."""
        self._events = events
        self._user = user
        self._audiences: dict[str, tuple[Audience, Collection[ConversationId] | None]] = {}
        self._viewed: dict[str, Collection[ConversationId]] = {}
        """The conversations that are looked at, by owner."""
        self._mailboxes: dict[str, Mailbox] = {}
        self._watched: list[str] = []
        """Owners whose activity is shown."""

    @property
    def mailboxes(self) -> Sequence[Mailbox]:
        """One mailbox for each clock. Their reader detaches them from the hub."""
        return list(self._mailboxes.values())

    def start(self, owner: str) -> Position:
        """Return the position after which the mailbox gets all events of a clock."""
        return self._mailboxes[owner].start

    def audience(self, owner: str) -> Audience:
        """Return the audience of a clock's owner."""
        return self._audiences[owner][0]

    async def add(self, owner: str, conversations: Collection[ConversationId] | None, budget: QueueBudget) -> None:
        """Subscribe to another clock.

        Args:
            owner: The clock's owner.
            conversations: The channels, and threads in channels, that are looked at; None: all channels.
            budget: Bounds the events that wait.

        Raises:
            StoreError: A database is unavailable.
        """
        channels = set(map(without_thread, conversations)) if conversations is not None else None
        audience = self._events.join(self._user, owner, channels)
        self._audiences[owner] = (audience, channels)
        self._viewed[owner] = conversations or ()
        subjects = (ACTIVITY,) if conversations is None else frozenset(conversations)
        mailbox = await self._events.hub.attach(owner, budget, self._user, subjects)
        self._mailboxes[owner] = mailbox
        for conversation in conversations or ():
            self._events.viewers.setdefault(conversation, {})[mailbox] = self._user
        await audience.refresh(0, (self._user,))
        if conversations is None:
            await self._events.watch_activity(owner)
            self._watched.append(owner)

    def release(self) -> None:
        """Leave all audiences. Idempotent."""
        watched, self._watched = self._watched, []
        for owner in watched:
            self._events.unwatch_activity(owner)
        audiences, self._audiences = self._audiences, {}
        for owner, (_, channels) in audiences.items():
            self._events.leave(self._user, owner, channels)
            for conversation in self._viewed[owner]:
                viewers = self._events.viewers.get(conversation, {})
                if owner in self._mailboxes:
                    viewers.pop(self._mailboxes[owner], None)
                if not viewers:
                    self._events.viewers.pop(conversation, None)

    def close(self) -> None:
        """End the subscription."""
        for mailbox in self._mailboxes.values():
            self._events.hub.detach(mailbox)
        self.release()
