"""Announces changes of pins: the event to all who can read the message, and for a pin the SYSTEM message.

A change is stored with a note (ADR 73). The server that made it announces it and removes the note. If that server dies,
another one does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import structlog

from store.base.errors import StoreError, Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.messages.message import Message, MessageKind
from store.messages.system_events import SystemEvent, SystemEventKind
from store.pins.pins import PinNote
from store.sessions.apply_results import parse_result
from store.sessions.changes import Revise, logged_change
from store.store import Store
from subscriptions.delivery.announcements.system_messages import send_announcement
from subscriptions.delivery.coalescing.log_appends import publish_event
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.recipients import ListViewers, SelectViewers
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.messages import PinsChanged
from subscriptions.realtime.events.shared import ChannelPins
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.shared.shared_events import SharedEvents, is_on_workspace_clock

_log = structlog.get_logger()

TAKEOVER_MS = 5_000
"""Age of a note from which on any server may announce the change."""

_SHARED_AFTER_MS = 4_000
"""From this age on another server may have begun to announce the same change."""

_USERS_AT_ONCE = 500
_TEXT = "A message was pinned."


class PinAnnouncements:
    """Announces changes of pins. Every step may be repeated."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        delivery: MessageDelivery,
        shared_events: SharedEvents,
        list_viewers: ListViewers,
        select_viewers: SelectViewers,
    ) -> None:
        self._store = store
        self._bus = bus
        self._delivery = delivery
        self._shared_events = shared_events
        self._list_viewers = list_viewers
        self._select_viewers = select_viewers

    async def announce(self, conversation: ConversationId, note: PinNote, *, is_abandoned: bool = False) -> None:
        """Announce a change. When this returns, all users see it.

        Raises StoreError: the rest follows later. While the deployment's Redis is unavailable, that is when it is back.
        """
        store, place = self._store, (conversation, note.seq)
        store.cache.require_shared()
        message = await self._find(place)
        if message is not None:
            await self._show(message)
            if is_on_workspace_clock(conversation):
                await self._publish_in_channel(message, note, is_abandoned)
            await self._publish_to_users(message, note, is_abandoned)
            await self._publish_to_watchers(message, note, is_abandoned)
            if note.announcement is not None:
                await send_announcement(store, self._delivery, _system_message(message, note))
        await store.pins.remove_note(conversation, note)

    async def announce_now(self, conversation: ConversationId, notes: Sequence[PinNote]) -> None:
        """Announce changes that a request has made. Raises StoreError, unless the deployment has no Redis."""
        store = self._store
        try:
            store.cache.require_shared()
        except Unreachable:
            # They are announced when Redis is back. Until then each request reads MongoDB.
            store.stale_caches.add_conversation(conversation)
            return
        for note in notes:
            try:
                await self.announce(conversation, note)
            except StoreError:
                store.stale_caches.add_conversation(conversation)
                raise

    async def announce_recall(self, message: Message) -> None:
        """Announce that the recall of a message has unpinned it, if it has. Errors are those of `announce_now`."""
        if message.pin_changes:
            notes = await self._store.pins.list_notes(message.conversation, message.seq)
            await self.announce_now(message.conversation, notes)

    async def announce_abandoned(self, age_ms: int = TAKEOVER_MS) -> int:
        """Announce changes that no server has announced within a time. Return their number. Raises StoreError."""
        store = self._store
        store.cache.require_shared()
        announced = 0
        for conversation, note in await store.pins.list_abandoned(store.clock.now_ms() - age_ms):
            try:
                await self.announce(conversation, note, is_abandoned=True)
                announced += 1
            except StoreError as error:
                _log.warning("pin_not_announced_yet", conversation=conversation, reason=str(error))
        if announced:
            _log.warning("abandoned_pins_announced", changes=announced)
        return announced

    async def _show(self, message: Message) -> None:
        """Show the change to readers: in the head, and in the messages that servers keep."""
        store, conversation = self._store, message.conversation
        calls = [store.revisions.newest_message_call(message, store.clock.now_ms())]
        if kind_of(conversation) is ConversationKind.CHANNEL:
            calls.append(store.pins.count_call(conversation, await store.pins.find(conversation)))
        await store.cache.run(calls)

    def _may_repeat(self, note: PinNote, is_abandoned: bool) -> bool:
        """Return whether another server may have announced the same change, or a part of it."""
        return is_abandoned or self._store.clock.now_ms() - note.at_ms > _SHARED_AFTER_MS

    async def _publish_in_channel(self, message: Message, note: PinNote, is_abandoned: bool) -> None:
        may_repeat = self._may_repeat(note, is_abandoned)
        call = self._shared_events.append_call(ChannelPins(message, note.number), may_repeat=may_repeat)
        answer = await self._store.cache.one(call)
        # Read after the tick, so that no event shows an older state than one before it (ADR 11).
        present = await self._find((message.conversation, message.seq))
        self._shared_events.publish_appended(ChannelPins(present or message, note.number), answer)

    async def _publish_to_users(self, message: Message, note: PinNote, is_abandoned: bool) -> None:
        """Give the event to all who can read the message and have it on their own clocks."""
        store, conversation = self._store, message.conversation
        viewers = sorted(await self._list_viewers(message), key=lambda user: user != note.actor)
        if not viewers:
            return
        at_ms = store.clock.now_ms()
        # If it is the newest message, what sessions show has changed, so they move.
        is_newest = await store.revisions.move_head(message, at_ms)
        for start in range(0, len(viewers), _USERS_AT_ONCE):
            users: list[UserId] = viewers[start : start + _USERS_AT_ONCE]
            may_repeat = self._may_repeat(note, is_abandoned)
            revise = Revise(conversation, message.seq, may_repeat=may_repeat)
            change = logged_change(revise, at_ms, PinsChanged.log_entry(message, note.number))
            answers = await store.cache.run_in_background([store.sessions.apply_call(user, change) for user in users])
            outcomes = [(user, parse_result(user, answer)) for user, answer in zip(users, answers, strict=True)]
            present = await self._find((conversation, message.seq))
            outgoing = OutgoingEvents()
            outgoing.add(PinsChanged(present or message), outcomes, stored_at=at_ms if is_newest else 0)
            if may_repeat:
                # A server that died may have applied it without sending it: hubs compare their users' clocks.
                outgoing.add_positions([pair for pair in outcomes if not pair[1].changed])
            self._bus.send(outgoing)
            await asyncio.sleep(0)

    async def _publish_to_watchers(self, message: Message, note: PinNote, is_abandoned: bool) -> None:
        """Give the event to users who look at a thread and do not follow it. In channels nobody needs it."""
        store, conversation = self._store, message.conversation
        if kind_of(conversation) is not ConversationKind.THREAD or is_on_workspace_clock(conversation):
            return

        async def read_event() -> PinsChanged:
            present = await self._find((conversation, message.seq))
            return PinsChanged(present or message, for_watchers=True)

        others = set(await store.watchers.list(conversation)).difference(await self._list_viewers(message))
        watchers = await self._select_viewers(message, sorted(others))
        entry = PinsChanged.log_entry(message, note.number, for_watchers=True)
        may_repeat = partial(self._may_repeat, note, is_abandoned)
        await publish_event(store, self._bus, watchers, entry, read_event, may_repeat=may_repeat)

    async def _find(self, place: tuple[ConversationId, int]) -> Message | None:
        return (await self._store.messages.find_many([place])).get(place)


def _system_message(message: Message, note: PinNote) -> Message:
    """Return the SYSTEM message that announces a pin. It replies to the pinned message, so that clients can show it."""
    assert note.announcement is not None and note.actor is not None
    return Message(
        id=note.announcement,
        conversation=message.conversation,
        sender=note.actor,
        kind=MessageKind.SYSTEM,
        text=_TEXT,
        mentions=(message.sender,),
        reply_to=(message.id, message.seq),
        system_event=SystemEvent(SystemEventKind.MESSAGE_PINNED),
    )
