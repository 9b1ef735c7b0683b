"""Publishes the reactions of messages: at most one event per 500 ms and message, and the last one always (ADR 72)."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.ids import ConversationKind, UserId, kind_of
from store.conversations.event_windows import EventWindows
from store.messages.message import Message
from store.messages.revision_store import Revision
from store.redis.cache import Call
from store.store import Store
from subscriptions.delivery.coalescing.coalesced_events import CoalescedEvents
from subscriptions.delivery.coalescing.log_appends import publish_event
from subscriptions.delivery.receipts.receipt_notifier import LARGEST_GROUP
from subscriptions.delivery.recipients import ListViewers, SelectViewers
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.reactions import ChannelReactions, ReactionsChanged, bare_message
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.shared.shared_events import SharedEvents, is_on_workspace_clock

INTERVAL_MS = 500
"""Time between two events of a message's reactions."""


class ReactionEvents:
    """Publishes changed reactions. `close` waits for running publications."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        shared_events: SharedEvents,
        list_viewers: ListViewers,
        select_viewers: SelectViewers,
        webhook_notes: WebhookNotes,
    ) -> None:
        self._store = store
        self._webhook_notes = webhook_notes
        self._bus = bus
        self._shared_events = shared_events
        self._list_viewers = list_viewers
        self._select_viewers = select_viewers
        self.windows = EventWindows(store.cache, store.keys, "reactions", INTERVAL_MS)
        """Bound how often the reactions of a message are published."""
        self._coalesced = CoalescedEvents[Message](self.windows, self._publish, store.stale_caches.add_conversation)

    @property
    def pending(self) -> int:
        """The number of messages whose reactions are not published yet."""
        return self._coalesced.pending

    def notify(self, message: Message, revision: Revision) -> None:
        """Publish the reactions of a message, which have changed: see `Notify`. Returns at once."""
        self._coalesced.notify(message.conversation, str(message.id), message, revision.entry)

    async def close(self) -> None:
        """Wait up to five seconds. Other servers publish the rest from the outbox."""
        await self._coalesced.close()

    async def _publish(self, message: Message, entries: Sequence[str]) -> None:
        """Publish the reactions of a message and those of its copy, if it has one: only the message's ever change."""
        clear = Call("XDEL", (self._store.keys.conversation(message.conversation)[2],), tuple(entries))
        copy = await self._store.copies.find(message)
        for each in (message,) if copy is None else (message, copy):
            await self._publish_one(each)
        # Before the outbox entries are deleted.
        await self._webhook_notes.note_reactions(message)
        self._bus.send(OutgoingEvents(), [clear])

    async def _publish_one(self, message: Message) -> None:
        if is_on_workspace_clock(message.conversation):
            await self._publish_in_channel(message)
        users, watchers = await self._list_recipients(message)
        await self._append(message, users, for_watchers=False)
        await self._append(message, watchers, for_watchers=True)

    async def _publish_in_channel(self, message: Message) -> None:
        call = self._shared_events.append_call(ChannelReactions(message))
        (answer,) = await self._store.cache.run_in_background([call])
        # Read after the tick, so that of two events, in any order, the last one shows the present state (ADR 11).
        present = await self._find(message)
        self._shared_events.publish_appended(ChannelReactions(bare_message(present)), answer)

    async def _list_recipients(self, message: Message) -> tuple[Sequence[UserId], Sequence[UserId]]:
        """Return the users who get the event, and those who get it because they look at the conversation."""
        store, conversation = self._store, message.conversation
        kind = kind_of(conversation)
        if kind is ConversationKind.CHANNEL:
            return (), ()
        if kind is ConversationKind.GROUP:
            head = await store.conversations.find(conversation)
            if head is not None and head.member_count > LARGEST_GROUP:
                return (), await self._select_viewers(message, await store.watchers.list(conversation))
        users = await self._list_viewers(message)
        if kind is not ConversationKind.THREAD or is_on_workspace_clock(conversation):
            return users, ()
        others = set(await store.watchers.list(conversation)) - set(users)
        return users, await self._select_viewers(message, sorted(others))

    async def _append(self, message: Message, users: Sequence[UserId], *, for_watchers: bool) -> None:
        """Append the event to the logs of users, and send it to their devices."""

        async def read_event() -> ReactionsChanged:
            return ReactionsChanged(bare_message(await self._find(message)), for_watchers)

        entry = ReactionsChanged.log_entry(message, for_watchers=for_watchers)
        await publish_event(self._store, self._bus, users, entry, read_event)

    async def _find(self, message: Message) -> Message:
        place = (message.conversation, message.seq)
        present = (await self._store.messages.find_many([place])).get(place)
        return present if present is not None and present.id == message.id else message
