"""Publishing of events that belong to one conversation."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.ids import UserId
from store.sessions.apply_results import parse_result
from store.sessions.changes import Change, Notice, logged_change
from store.store import Store
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.base import ConversationEvent
from subscriptions.realtime.outgoing_events import OutgoingEvents


class EventPublisher:
    """Puts events into users' logs, and sends them to their devices."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store = store
        self._bus = bus

    async def publish(
        self, event: ConversationEvent, users: Sequence[UserId], change: Change | None = None, stored_at: int = 0
    ) -> None:
        """Apply an event to the cached states of users who have a session of its conversation: one round trip to Redis.

        Their devices get it once, in the order of the user's clock, also after they reconnect. Users whose state is not
        cached have no log: their devices do not get the event.

        Args:
            event: The event.
            users: The recipients, in any order.
            change: The change of their sessions; None: they do not change.
            stored_at: The time (ms) that MongoDB has for the change; 0: none. Users take it as their tick if they can,
                so that it need not be stored for each of them.

        Raises:
            StoreError: Some of the users may have got the event.
        """
        if not users:
            return
        store = self._store
        if not store.cache.is_shared:
            for user in users:
                store.stale_caches.add_user(user)
            return
        at = stored_at or store.clock.now_ms()
        call = logged_change(change or Notice(event.conversation), at, event.log_entry())
        answers = await store.cache.run_in_background([store.sessions.apply_call(user, call) for user in users])
        outgoing = OutgoingEvents()
        outcomes = [(user, parse_result(user, answer)) for user, answer in zip(users, answers, strict=True)]
        outgoing.add(event, outcomes, stored_at=stored_at)
        self._bus.send(outgoing)
