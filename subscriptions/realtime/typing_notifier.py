"""Typing: at most one event in WINDOW_MS for each user and conversation, over all servers.

The answer tells whether another member is visibly connected (ADR 81). Events are sent to all devices of others, also to
those of INVISIBLE users. An INVISIBLE user gets the same answers, and their events are sent to nobody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from store.base.ids import ConversationId, UserId, parse_thread
from store.base.workspace_ids import workspace_of_channel
from store.conversations.typing_store import WINDOW_MS, RecordedTyping, TypingStep, WantedReads
from store.store import Store
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.ephemeral_delivery import EphemeralDelivery
from subscriptions.realtime.events.base import EphemeralEvent
from subscriptions.realtime.events.typing import TypingStarted, TypingStopped
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.recent_keys import RecentKeys
from subscriptions.realtime.shared.shared_events import SharedEvents

_FIRST_CANDIDATES = 32
"""Members of a large group whose presence is read first. Usually one of them is visible."""

_Record = Callable[[UserId, ConversationId, WantedReads], Awaitable[RecordedTyping]]
"""Records an event of a user in Redis: `TypingStore.begin` or `TypingStore.end`."""


class TypingNotifier:
    """Notifies the connected members of a conversation that a user is typing, or has stopped."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        ephemeral: EphemeralDelivery,
        shared_events: SharedEvents,
        find_blockers: Callable[[UserId, Sequence[UserId]], Awaitable[Collection[UserId]]],
    ) -> None:
        """Connect the parts. find_blockers: returns those of some users who have blocked a user."""
        self._store = store
        self._find_blockers = find_blockers
        self._shared_events = shared_events
        self._bus = bus
        self._ephemeral = ephemeral
        self._sent = RecentKeys[tuple[ConversationId, UserId]](WINDOW_MS)
        self._without_visible = RecentKeys[ConversationId](WINDOW_MS)
        """Large groups of which no member is visible. To find that out needs the presence of all members."""

    async def announce(self, conversation: ConversationId, user: UserId, version: str) -> bool:
        """Send TypingStarted to the devices of the other members.

        Returns False if no other member is visibly connected, or an event was sent within the window. Best effort: an
        event may get lost. `version`: of the membership that the user was found in; "" for a private conversation. One
        round trip to Redis in conversations of up to 200 others whose version this process knows; none if it sent the
        last event itself. Raises Unreachable.
        """
        if self._is_sent(conversation, user):
            return False
        event = TypingStarted(conversation, user, self._store.clock.now_ms())
        return self._note(event, *await self._notify(event, version, self._store.typing.begin))

    async def announce_end(self, conversation: ConversationId, user: UserId, version: str) -> bool:
        """Send TypingStopped to the devices of the other members, once after each TypingStarted that was sent.

        Returns False if no other member is visibly connected, or if clients have stopped showing the user as typing.
        Guarantees and parameters are those of `announce`. One round trip to Redis.
        """
        event = TypingStopped(conversation, user, self._store.clock.now_ms())
        step, is_seen = await self._notify(event, version, self._store.typing.end)
        return is_seen and step is TypingStep.DUE

    async def announce_in_channel(self, channel: ConversationId, user: UserId) -> bool:
        """Send TypingStarted to those who look at a channel, at most once within the window.

        In a thread of a channel, its followers get it too.

        Returns False if an event was sent within the window, or nobody else who is visible and sees the channel looks
        at it. One round trip to Redis; none if this process sent the last event itself. If nobody looks at it on this
        server, it waits for the answers of those that look at the workspace. Raises Unreachable.
        """
        if self._is_sent(channel, user):
            return False
        event = TypingStarted(channel, user, self._store.clock.now_ms())
        return self._note(event, *await self._notify_in_channel(event, self._store.typing.begin))

    async def announce_end_in_channel(self, channel: ConversationId, user: UserId) -> bool:
        """Send TypingStopped to those who look at a channel, once after each TypingStarted that was sent."""
        event = TypingStopped(channel, user, self._store.clock.now_ms())
        step, is_seen = await self._notify_in_channel(event, self._store.typing.end)
        return is_seen and step is TypingStep.DUE

    def _is_sent(self, conversation: ConversationId, user: UserId) -> bool:
        return self._sent.contains((conversation, user), self._store.clock.now_ms())

    def _note(self, event: EphemeralEvent, step: TypingStep, is_seen: bool) -> bool:
        """Note whether a visible user saw an announcement. Return whether this process may answer that it was sent.

        A user who connects within the window should get the next announcement.
        """
        if is_seen:
            self._sent.add((event.conversation, event.user), event.at_ms)
        if step is not TypingStep.NOTHING and is_seen is not (step is TypingStep.DUE):
            call = self._store.typing.mark_call(event.user, event.conversation, is_seen=is_seen)
            self._bus.send(OutgoingEvents(), [call])
        return is_seen

    async def _notify(self, event: EphemeralEvent, version: str, record: _Record) -> tuple[TypingStep, bool]:
        """Send an event to the other members, if it is due. Return the step, and whether a visible member gets it."""
        others = await self._list_others(event, version)
        is_large = self._ephemeral.is_large(others)
        wanted = WantedReads((), others[:_FIRST_CANDIDATES]) if is_large else WantedReads(others, others)
        recorded = await record(event.user, event.conversation, wanted)
        if recorded.step is TypingStep.NOTHING:
            return recorded.step, False
        is_seen = await self._store.visibility.is_any_visible(recorded.presences)
        if is_large and not is_seen:
            is_seen = await self._find_visible(event, others[_FIRST_CANDIDATES:])
        if await self._is_sent_now(event, recorded, is_seen=is_seen):
            if is_large:
                self._ephemeral.send_to_all_servers(event, version)
            else:
                self._ephemeral.send(event, others, recorded.routes)
        return recorded.step, is_seen

    async def _list_others(self, event: EphemeralEvent, version: str) -> list[UserId]:
        """Return the other members, without those who have blocked the user: they get nothing, and do not count."""
        others = await self._ephemeral.list_others(event, version)
        blockers = await self._find_blockers(event.user, others)
        return [other for other in others if other not in blockers] if blockers else others

    async def _find_visible(self, event: EphemeralEvent, others: Sequence[UserId]) -> bool:
        """Return whether one of many members is visible. If none is, this is remembered for WINDOW_MS."""
        if self._without_visible.contains(event.conversation, event.at_ms):
            return False
        is_seen = await self._store.visibility.find_any_visible(others)
        if not is_seen:
            self._without_visible.add(event.conversation, event.at_ms)
        return is_seen

    async def _notify_in_channel(self, event: EphemeralEvent, record: _Record) -> tuple[TypingStep, bool]:
        """Send an event to those who look at a channel or a thread in one, and to the thread's followers."""
        channel, user, viewers = event.conversation, event.user, self._shared_events.channel_viewers
        followers: Sequence[UserId] = ()
        if parse_thread(channel) is not None:
            followers = await self._list_others(event, "")
        sample = viewers.sample(channel, user)
        wanted = WantedReads(followers, tuple(dict.fromkeys((*sample, *followers))), workspace_of_channel(channel))
        recorded = await record(user, channel, wanted)
        if recorded.step is TypingStep.NOTHING:
            return recorded.step, False
        is_seen = await viewers.is_any_visible(channel, user, recorded.presences, recorded.servers)
        if await self._is_sent_now(event, recorded, is_seen=is_seen):
            self._shared_events.typing.send(event, recorded.servers)
            self._ephemeral.send(event, followers, recorded.routes)
        return recorded.step, is_seen

    async def _is_sent_now(self, event: EphemeralEvent, recorded: RecordedTyping, *, is_seen: bool) -> bool:
        """Return whether an event that is due is sent: not of an INVISIBLE user, and not again to those who got it."""
        is_hidden = await self._store.visibility.is_invisible(event.user, recorded.own)
        is_repeated = isinstance(event, TypingStarted) and recorded.step is TypingStep.UNSEEN and not is_seen
        return not is_hidden and not is_repeated
