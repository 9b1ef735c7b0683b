"""Typing: at most one event in WINDOW_MS for each user and conversation, over all servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from store.base.ids import ConversationId, UserId, parse_thread
from store.base.workspace_ids import workspace_of_channel
from store.conversations.typing_store import WINDOW_MS, Routes
from store.store import Store
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.ephemeral_delivery import EphemeralDelivery
from subscriptions.realtime.events.base import EphemeralEvent
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.recent_keys import RecentKeys
from subscriptions.realtime.shared.shared_events import SharedEvents

_Step = Callable[[UserId, ConversationId, Sequence[UserId]], Awaitable[tuple[bool, Routes]]]
"""Records an event of a user in Redis. Returns whether the event has to be sent, and the routes of the given users."""


class TypingNotifier:
    """Notifies the connected members of a conversation that a user is typing, or has stopped."""

    def __init__(self, store: Store, bus: Bus, ephemeral: EphemeralDelivery, shared_events: SharedEvents) -> None:
        self._store = store
        self._shared_events = shared_events
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
        store = self._store.typing
        is_due, sent = await self._notify(TypingStarted(conversation, user, now), version, store.take_window)
        if sent:
            self._sent.add((conversation, user), now)
        elif is_due:
            # No device received the event. A member who connects within the window should receive the next one.
            self._bus.send(OutgoingEvents(), [store.release_window_call(user, conversation)])
        return sent

    async def announce_end(self, conversation: ConversationId, user: UserId, version: str) -> bool:
        """Send TypingStopped to the other members who are connected, once after each TypingStarted that was sent.

        Returns False if none is connected, or if clients have stopped showing the user as typing. Guarantees and
        parameters are those of `announce`. One round trip to Redis.
        """
        event = TypingStopped(conversation, user, self._store.clock.now_ms())
        _, sent = await self._notify(event, version, self._store.typing.end_typing)
        return sent

    async def announce_in_channel(self, channel: ConversationId, user: UserId) -> bool:
        """Send TypingStarted to those who look at a channel, at most once within the window.

        In a thread of a channel, its followers get it too.

        Returns False if an event was sent within the window, or nobody else who sees the channel looks at it. One round
        trip to Redis; none if this process sent the last event itself. If nobody looks at it on this server, it waits
        for the answers of those that look at the workspace. Raises Unreachable.
        """
        now = self._store.clock.now_ms()
        if self._sent.contains((channel, user), now):
            return False
        store = self._store.typing
        is_due, servers = await store.take_window_on_clock(user, channel, workspace_of_channel(channel))
        sent = is_due and await self._send_in_channel(TypingStarted(channel, user, now), servers)
        if sent:
            self._sent.add((channel, user), now)
        elif is_due:
            self._bus.send(OutgoingEvents(), [store.release_window_call(user, channel)])
        return sent

    async def announce_end_in_channel(self, channel: ConversationId, user: UserId) -> bool:
        """Send TypingStopped to those who look at a channel, once after each TypingStarted that was sent."""
        event = TypingStopped(channel, user, self._store.clock.now_ms())
        is_due, servers = await self._store.typing.end_typing_on_clock(user, channel, workspace_of_channel(channel))
        return is_due and await self._send_in_channel(event, servers)

    async def _send_in_channel(self, event: EphemeralEvent, servers: Sequence[str]) -> bool:
        """Send an event to those who look at a channel or a thread in one, and to the thread's followers."""
        is_seen = await self._shared_events.send_typing(event, servers)
        if parse_thread(event.conversation) is None:
            return is_seen
        followers = await self._ephemeral.list_others(event, "")
        routes = await self._store.typing.find_routes(followers) if followers else {}
        return self._ephemeral.send(event, followers, routes) or is_seen

    async def _notify(self, event: EphemeralEvent, version: str, step: _Step) -> tuple[bool, bool]:
        """Send an event to the other members if `step` says that it is due. Return whether it was due, and was sent."""
        others = await self._ephemeral.list_others(event, version)
        if not self._ephemeral.is_large(others):
            is_due, routes = await step(event.user, event.conversation, others)
            return is_due, is_due and self._ephemeral.send(event, others, routes)
        if not await self._ephemeral.has_listeners(event, others):
            return False, False
        is_due, _ = await step(event.user, event.conversation, ())
        if is_due:
            self._ephemeral.send_to_all_servers(event, version)
        return is_due, is_due
