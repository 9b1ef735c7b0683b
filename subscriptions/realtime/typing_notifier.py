"""Typing: at most one event in WINDOW_MS for each user and conversation, over all servers."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.ids import ConversationId, UserId
from store.conversations.typing_store import WINDOW_MS
from store.store import Store
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.ephemeral_delivery import EphemeralDelivery
from subscriptions.realtime.events.typing import TypingStarted
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.recent_keys import RecentKeys


class TypingNotifier:
    """Notifies the connected members of a conversation that a user is typing."""

    def __init__(self, store: Store, bus: Bus, ephemeral: EphemeralDelivery) -> None:
        self._store = store
        self._bus = bus
        self._ephemeral = ephemeral
        self._sent = RecentKeys[tuple[ConversationId, UserId]](WINDOW_MS)

    async def announce(self, conversation: ConversationId, user: UserId, version: str) -> bool:
        """Send TypingStarted to the other members who are connected.

        Returns False if none is connected, or an event was sent within the window. Best effort: an event may get lost.
        `version`: of the membership that the user was found in; "" for a private conversation. One round trip to Redis
        in conversations of up to 200 others whose version this process knows; none if it sent the last event itself.
        Raises Unreachable.
        """
        now = self._store.clock.now_ms()
        if self._sent.contains((conversation, user), now):
            return False
        event = TypingStarted(conversation, user, now)
        others = await self._ephemeral.list_others(event, version)
        if self._ephemeral.is_large(others):
            sent = await self._send_to_all_servers(event, others, version)
        else:
            sent = await self._send(event, others)
        if sent:
            self._sent.add((conversation, user), now)
        return sent

    async def _send(self, event: TypingStarted, others: Sequence[UserId]) -> bool:
        is_free, routes = await self._store.typing.take_window(event.user, event.conversation, others)
        if not is_free:
            return False
        if self._ephemeral.send(event, others, routes):
            return True
        # No device received the event. A member who connects within the window should receive the next one.
        self._bus.send(OutgoingEvents(), [self._store.typing.release_window_call(event.user, event.conversation)])
        return False

    async def _send_to_all_servers(self, event: TypingStarted, others: Sequence[UserId], version: str) -> bool:
        if not await self._ephemeral.has_listeners(event, others):
            return False
        is_free, _ = await self._store.typing.take_window(event.user, event.conversation)
        if is_free:
            self._ephemeral.send_to_all_servers(event, version)
        return is_free
