"""Moves noted events of outgoing webhooks to the log in MongoDB: one process of the deployment at a time (ADR 90)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import structlog

from store.base.background import mark_as_background
from store.base.errors import StoreError, Superseded
from store.base.ids import ConversationId, UserId
from store.base.tasks import end_tasks
from store.messages.message import Message
from store.store import Store
from store.webhooks.event_log import LEASE_MS
from store.webhooks.event_notes import EventEntry
from store.webhooks.event_rows import KNOWN_TYPES, NotedEvent
from store.webhooks.webhook import WebhookEventType, WebhookId
from store.webhooks.webhook_registry import CLOCK_TOLERANCE_MS
from subscriptions.delivery.recipients import ListViewers
from subscriptions.delivery.webhooks.event_order import EventOrder
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes
from subscriptions.realtime.bus import ALL_SERVERS, Bus

_log = structlog.get_logger()

INTERVAL_SECONDS = 0.25
"""Interval at which the process with the lease looks for noted events."""

IDLE_SECONDS = 5.0
"""Interval at which processes look for noted events where there are no webhooks, or another process has the lease."""

_TAKE_SECONDS = 2.0
"""Interval at which other processes try to take the lease."""

_ENTRIES = 100
_EVENTS_AT_ONCE = 1_000
"""Rows in one transaction. Of a noted event, each webhook that wants it has a row."""

MOST_OFFLINE = 500
"""Users that one event names."""

_RENEW_SECONDS = LEASE_MS / 3_000

NEW_EVENTS = "webhook_events"
"""Frame on the bus that names the webhooks with new events."""


class LogWriter:
    """Runs in processes that do background work."""

    def __init__(self, store: Store, bus: Bus, webhook_notes: WebhookNotes, list_viewers: ListViewers) -> None:
        self._store = store
        self._bus = bus
        self._webhook_notes = webhook_notes
        self._list_viewers = list_viewers
        self._task: asyncio.Task[None] | None = None
        self._order = EventOrder(store)
        self._leased_until = 0.0
        """By the monotonic clock, from before the lease was renewed."""
        self._lock = asyncio.Lock()
        self._partly_written: set[tuple[str, bytes]] = set()
        """Entries that stay in their streams for servers of later versions. Their known events are in the log."""

    @property
    def has_lease(self) -> bool:
        """True while no other process writes."""
        return time.monotonic() < self._leased_until

    def open(self) -> None:
        """Start to write in the background."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write what is noted, then give the lease to another process."""
        if self._task is None:
            return
        await end_tasks([self._task])
        self._task = None
        if self.has_lease:
            try:
                async with asyncio.timeout(2.0):
                    await self.write()
                    await self._store.webhook_log.release_lease()
            except (StoreError, TimeoutError):
                # Another process takes the lease when it ends.
                _log.info("webhook_events_left_to_others")

    async def write(self) -> int:
        """Move all noted events to the log, if this process has or gets the lease. Return the number of notes.

        Raises StoreError; the next call continues.
        """
        async with self._lock:
            self._store.cache.require_shared()
            if not await self._renew():
                return 0
            written = 0
            read: dict[str, bytes] = {}
            waiting: set[str] = set()
            with_unknown: set[tuple[str, bytes]] = set()
            while True:
                began_ms = self._store.clock.now_ms()
                entries = await self._list_entries(read)
                if entries is None:
                    return written
                if not entries:
                    self._partly_written.intersection_update(with_unknown)
                    if not waiting and not with_unknown and await self._store.deployment.has_contents():
                        await self._store.webhook_log.note_written(began_ms)
                    return written
                with_unknown |= {(entry.key, entry.id) for entry in entries if has_unknown(entry)}
                new = [entry for entry in entries if (entry.key, entry.id) not in self._partly_written]
                written += await self._write(new, with_unknown, waiting) if new else 0
                # Events that wait for earlier messages delay no other conversation.
                read |= {entry.key: entry.id for entry in entries}
                if not await self._renew():
                    return written

    async def _renew(self) -> bool:
        """Take the lease, or renew it when a third of it has passed."""
        now = time.monotonic()
        if now + LEASE_MS / 1000 - _RENEW_SECONDS < self._leased_until:
            return True
        taken = await self._store.webhook_log.take_lease()
        self._leased_until = now + LEASE_MS / 1000 if taken else 0.0
        return taken

    async def _list_entries(self, read: Mapping[str, bytes]) -> Sequence[EventEntry] | None:
        """Return the next entries to write; None: after a loss of Redis, earlier ones are still being noted again."""
        notes = self._store.webhook_notes
        entries = await notes.list_entries(_ENTRIES, read)
        # In this order: when the recovery has ended, all of its notes are there.
        if entries and await self._store.deployment.generations.is_recovering():
            return None
        return await notes.list_entries(_ENTRIES, read, is_recovery=True) or entries

    async def _write(
        self, entries: Sequence[EventEntry], with_unknown: set[tuple[str, bytes]], waiting: set[str]
    ) -> int:
        """Write what is not waiting for earlier messages. Return the number of entries that are done.

        Args:
            entries: The entries to write.
            with_unknown: Entries that stay in their streams after their known events are written.
            waiting: Conversations whose events wait; those that are found are added.
        """
        # A webhook may be newer than the last refresh of this process, and older than these events.
        await self._store.webhook_registry.refresh()
        known = [
            entry._replace(events=[event for event in entry.events if event.type in KNOWN_TYPES]) for entry in entries
        ]
        arranged = await self._order.arrange(known, waiting)
        waiting |= arranged.waiting
        pairs: list[tuple[WebhookId, NotedEvent]] = []
        for event, is_found in arranged.events:
            webhooks = self._store.webhook_registry.list_for(event, 0 if is_found else CLOCK_TOLERANCE_MS)
            completed = await self._complete(event) if webhooks else None
            if completed is not None:
                pairs += ((webhook, completed) for webhook in webhooks)
        for start in range(0, len(pairs), _EVENTS_AT_ONCE):
            try:
                changed = await self._store.webhook_log.append(pairs[start : start + _EVENTS_AT_ONCE])
            except Superseded:
                self._leased_until = 0.0
                raise
            if changed:
                self._bus.send_frames(NEW_EVENTS, {ALL_SERVERS: sorted(changed)})
        self._order.note_written(arranged)
        done = [entry for entry in arranged.done if (entry.key, entry.id) not in with_unknown]
        self._partly_written |= with_unknown & {(entry.key, entry.id) for entry in arranged.done}
        await self._store.webhook_notes.remove(done)
        return len(done)

    async def _complete(self, event: NotedEvent) -> NotedEvent | None:
        """Return an event to log, a USER_OFFLINE_MESSAGE with its users; None: there are no such users."""
        if event.type != WebhookEventType.USER_OFFLINE_MESSAGE:
            return event
        place = (ConversationId(event.conversation), int(event.reference[0]))
        message = (await self._store.messages.find_many([place])).get(place)
        users = await self._list_offline(message) if message is not None else ()
        return event._replace(reference=(*event.reference, list(users))) if users else None

    async def _list_offline(self, message: Message) -> Sequence[UserId]:
        viewers = [user for user in await self._list_viewers(message) if user != message.sender]
        # The event is there for pushes of other systems.
        blockers = await self._store.blocks.rows.find_blockers(message.sender, viewers)
        viewers = [user for user in viewers if user not in blockers]
        return await self._store.visibility.list_visibly_offline(viewers, MOST_OFFLINE)

    async def _run(self) -> None:
        mark_as_background()
        is_failing = False
        while True:
            has_webhooks = bool(self._store.webhook_registry.webhooks)
            seconds = IDLE_SECONDS if not has_webhooks else INTERVAL_SECONDS if self.has_lease else _TAKE_SECONDS
            await self._wait(seconds)
            try:
                if has_webhooks or await self._store.webhook_notes.count():
                    await self.write()
                is_failing = False
            except Superseded:
                continue
            except StoreError as error:
                if not is_failing:
                    _log.warning("webhook_events_not_written_yet", reason=str(error))
                is_failing = True
                await asyncio.sleep(1.0)
            except Exception:
                _log.exception("webhook_events_not_written_yet")
                await asyncio.sleep(1.0)

    async def _wait(self, seconds: float) -> None:
        """Wait for a time, or until this process has noted events."""
        try:
            async with asyncio.timeout(seconds):
                await self._webhook_notes.noted.wait()
        except TimeoutError:
            return
        self._webhook_notes.noted.clear()
        if not self.has_lease and not await self._may_begin():
            await asyncio.sleep(_TAKE_SECONDS)

    async def _may_begin(self) -> bool:
        """Return whether this process takes the lease at once. Otherwise another one writes."""
        try:
            return await self._renew()
        except StoreError:
            return False


def has_unknown(entry: EventEntry) -> bool:
    """Return whether an entry has events that only later versions know. Their servers write it (ADR 104)."""
    return any(event.type not in KNOWN_TYPES for event in entry.events)
