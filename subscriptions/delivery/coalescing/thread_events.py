"""Publishes changed threads: at most one event a second and thread, and the last one always (ADR 70)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from store.base.ids import ConversationId, ThreadPlace, UserId, parse_thread
from store.base.workspace_ids import is_in_workspace
from store.conversations.event_windows import EventWindows
from store.messages.message import Message, ReservedMessage
from store.messages.thread_notes import ThreadNote, parse_thread_note, thread_note_call
from store.redis.cache import Call
from store.store import Store
from subscriptions.delivery.coalescing.coalesced_events import CoalescedEvents
from subscriptions.delivery.coalescing.log_appends import publish_event
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.threads import ChannelThread, ThreadChanged
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.shared.shared_events import SharedEvents

INTERVAL_MS = 1_000
"""Time between two events of a thread."""


ListReaders = Callable[[ConversationId, Sequence[int]], Awaitable[Sequence[UserId]]]
"""Returns the current members of a private conversation or group who can read the messages at some seqs."""


class ThreadEvents:
    """Publishes changed threads to those who see their parent message. `close` waits for running publications."""

    def __init__(self, store: Store, bus: Bus, shared_events: SharedEvents, list_readers: ListReaders) -> None:
        self._store = store
        self._bus = bus
        self._shared_events = shared_events
        self._list_readers = list_readers
        windows = EventWindows(store.cache, store.keys, "thread", INTERVAL_MS)
        self._coalesced = CoalescedEvents[ConversationId](windows, self._publish, store.stale_caches.add_conversation)

    @property
    def pending(self) -> int:
        """The number of threads that are not published yet."""
        return self._coalesced.pending

    @staticmethod
    def is_changed_by(reserved: ReservedMessage) -> bool:
        """Return whether a message in a thread, or a change of one, changes what the events show."""
        change = reserved.change
        if change is not None and not change.announced:
            return "locked" in change.fields
        return reserved.message.kind.countable

    def note_call(self, thread: ConversationId) -> Call:
        """Return the call that notes in the outbox that a thread has changed. `publish` takes its answer.

        Make it together with the call that applies the change to the head, and after it.
        """
        return thread_note_call(self._store.keys, thread)

    def publish(self, thread: ConversationId, answer: Any) -> None:
        """Publish a thread whose change was noted, now or soon. Returns at once."""
        self.finish(parse_thread_note(thread, answer))

    def finish(self, note: ThreadNote) -> None:
        """Publish a thread that another server has noted. Returns at once."""
        self._coalesced.notify(note.thread, note.thread, note.thread, note.entry)

    async def close(self) -> None:
        """Wait up to five seconds. Other servers publish the rest from the outbox."""
        await self._coalesced.close()

    async def _publish(self, thread: ConversationId, entries: Sequence[str]) -> None:
        place = parse_thread(thread)
        assert place is not None
        parent = await self._find(place)
        if parent is not None:
            if is_in_workspace(thread):
                await self._publish_in_channel(place, parent)
            else:
                await self._publish_to_members(place, parent, entries[-1])
        clear = Call("XDEL", (self._store.keys.conversation(thread)[2],), tuple(entries))
        self._bus.send(OutgoingEvents(), [clear])

    async def _publish_in_channel(self, place: ThreadPlace, parent: Message) -> None:
        (answer,) = await self._store.cache.run_in_background([self._shared_events.append_call(ChannelThread(parent))])
        present = await self._find(place)
        self._shared_events.publish_appended(ChannelThread(present or parent), answer)

    async def _publish_to_members(self, place: ThreadPlace, parent: Message, publication: str) -> None:
        """Append the event to the logs of all members who can read the parent message, and send it to their devices."""
        event: ThreadChanged | None = None

        async def read_event() -> ThreadChanged:
            # One object, so that each server shows it once for all. Servers read the thread itself when they show it,
            # so after the first tick. A change after that is published again.
            nonlocal event
            if event is None:
                event = ThreadChanged(await self._find(place) or parent, publication)
            return event

        users = await self._list_readers(place.parent, [place.seq])
        await publish_event(self._store, self._bus, users, ThreadChanged.log_entry(place), read_event)

    async def _find(self, place: ThreadPlace) -> Message | None:
        return (await self._store.messages.find_many([place])).get((place.parent, place.seq))
