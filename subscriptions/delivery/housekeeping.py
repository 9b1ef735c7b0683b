"""Periodic work of a server.

- It checks whether Redis was lost, and finishes deliveries and changes of rights that dead servers left.
- It renews the lease of the server's worker number, and reads which servers are in the ring and their formats.
- It reports that the server is alive, and reads the reports of others. It finds idle and departed devices.
- It writes which users of the server are online in their workspaces.
- It compares the feeds of its connections with Redis, and renews the watches of those who look at a conversation.
- It ends the voice states of devices that are gone, and writes those again that Redis has lost.
- It lets messages expire, and removes them.
- It removes deleted workspaces and unused files, and adds the search fields that are missing in users.
- It releases the receipts of users who are not INVISIBLE any more.
- It fetches the link previews that other servers left, and asks the virus scanner again.
- It indexes messages that other servers left, and those of the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from store.base.background import mark_as_background
from store.base.ids import PARTITIONS, UserId
from store.base.repeated_work import RepeatedWork
from store.base.tasks import end_tasks
from store.messages.message import ReservedMessage
from store.messages.revision_store import Revision, RevisionKind
from store.messages.thread_notes import ThreadNote
from store.redis.cache import Call
from store.retention.retention import INTERVAL_SECONDS
from store.store import Store
from store.voice.voice_store import CHECK_MS
from subscriptions.delivery.announcements.pins import PinAnnouncements
from subscriptions.delivery.coalescing.thread_events import ThreadEvents
from subscriptions.delivery.files.file_sweeper import FileSweeper
from subscriptions.delivery.files.pending_scans import Accepts, PendingScans
from subscriptions.delivery.loss_recovery import LossRecovery
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.previews.preview_worker import PreviewWorker
from subscriptions.delivery.push.push_notes import PushNotes
from subscriptions.delivery.reactions.reaction_changes import Reactions
from subscriptions.delivery.receipts.receipt_release import ReceiptRelease
from subscriptions.delivery.reports.opened_reports import OpenedReports
from subscriptions.delivery.revisions import Revisions
from subscriptions.delivery.search.indexing import OLD_INTERVAL_SECONDS, PAST_INTERVAL_SECONDS, SearchIndexing
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes
from subscriptions.presence.connected_devices import ConnectedDevices
from subscriptions.presence.live_servers import REPORT_SECONDS, LiveServers
from subscriptions.presence.online_users import EXTEND_SECONDS, WRITE_SECONDS, OnlineUsers
from subscriptions.presence.presence_hub import WATCH_MS, PresenceHub
from subscriptions.realtime.hub import CHECK_SECONDS, Hub
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.shared.watches import RENEW_SECONDS, Watches
from subscriptions.realtime.user_hub import UserHub
from subscriptions.voice.voice_checks import VoiceChecks
from subscriptions.voice.voice_devices import VoiceDevices

_log = structlog.get_logger()

TAKEOVER_MS = 5_000
"""Age of an outbox entry from which on any server may finish it."""

_SLICES = 4
"""Parts of the outbox's partitions, of which one is swept each second."""

_LEASE_SECONDS = 15.0
"""Time between two renewals of the worker number's lease. Ids can be made for up to 40 s after a renewal."""

_PINS_SECONDS = 5.0
"""Interval at which changes of pins are looked for whose server died."""

_REPORTS_SECONDS = 5.0
"""Interval at which reports are looked for whose event no server has noted."""

_HELD_RECEIPTS_SECONDS = 5.0
"""Interval at which receipts are looked for whose user's INVISIBLE has ended."""

_PREVIEWS_SECONDS = 5.0
"""Interval at which messages are looked for whose link previews no server has fetched."""

_REWRITE_SECONDS = 30.0
"""Interval at which some of the connected devices are written to their records again."""

_RETRY_SECONDS = 2.0
"""Longest time after which work that failed is tried again."""

_ENTRIES = 100
_SWEEPER_LOCK_MS = 900


class Housekeeper:
    """Runs the periodic work. Each task tries again after a failure."""

    def __init__(
        self,
        store: Store,
        hub: UserHub,
        shared_hub: Hub[str],
        watches: Watches,
        delivery: MessageDelivery,
        revisions: Revisions,
        receipt_release: ReceiptRelease,
        pins: PinAnnouncements,
        reactions: Reactions,
        previews: PreviewWorker,
        indexing: SearchIndexing,
        threads: ThreadEvents,
        ring: ServerRing,
        live_servers: LiveServers,
        devices: ConnectedDevices,
        online: OnlineUsers,
        presence: PresenceHub,
        data_center: int,
        accepts: Accepts | None = None,
        *,
        voice_devices: VoiceDevices,
        voice_checks: VoiceChecks,
        push_notes: PushNotes,
        webhook_notes: WebhookNotes,
        reports: OpenedReports,
    ) -> None:
        self._store = store
        self._voice_devices = voice_devices
        self._reports = reports
        self._voice_checks = voice_checks
        self._hub = hub
        self._shared_hub = shared_hub
        self._watches = watches
        self._delivery = delivery
        self._revisions = revisions
        self._receipt_release = receipt_release
        self._pins = pins
        self._reactions = reactions
        self._previews = previews
        self.indexing = indexing
        self._threads = threads
        self._ring = ring
        self._live_servers = live_servers
        self._devices = devices
        self._online = online
        self._presence = presence
        self._loss_recovery = LossRecovery(store, delivery, push_notes, webhook_notes)
        self.files = FileSweeper(store)
        self._scans = PendingScans(store, accepts)
        self._data_center = data_center
        self._tasks: list[asyncio.Task[None]] = []
        self._slice = 0
        self._closing = False
        self._epoch = ("", 0)
        """The epoch of Redis and the newest generation at the last check."""

    async def open(self) -> None:
        """Start. The databases need not be reachable."""
        self._epoch = self._read_epoch()
        self._tasks = [
            asyncio.create_task(self._repeat(seconds, name, work))
            for seconds, name, work in (
                (1.0, "redis", self.check_redis),
                (1.0, "outbox", self._sweep_slice),
                (_LEASE_SECONDS, "lease", self._lease),
                (1.0, "loss_recovery", self._loss_recovery.recover),
                (CHECK_SECONDS, "feeds", self._hub.check_feeds),
                (CHECK_SECONDS, "shared_feeds", self._shared_hub.check_feeds),
                (REPORT_SECONDS, "live_servers", self._live_servers.report),
                (1.0, "devices", self._devices.check),
                (_REWRITE_SECONDS, "device_records", self._rewrite_devices),
                (WRITE_SECONDS, "online_users", self._online.write),
                (EXTEND_SECONDS, "online_sets", self._online.extend),
                (RENEW_SECONDS, "watches", self._watches.renew),
                (WATCH_MS / 2_000, "presence_watches", self._presence.renew),
                (0.2, "mutes", self._end_mutes),
                (_PINS_SECONDS, "pins", self._pins.announce_abandoned),
                (_REPORTS_SECONDS, "reports", self._reports.note_abandoned),
                (_HELD_RECEIPTS_SECONDS, "held_receipts", self._receipt_release.release_due),
                (_PREVIEWS_SECONDS, "previews", self._previews.continue_due),
                (OLD_INTERVAL_SECONDS, "search_index", self.indexing.index_old),
                (PAST_INTERVAL_SECONDS, "search_past", self.indexing.index_past),
                (_LEASE_SECONDS, "search_others", self.indexing.watch_servers_without_notes),
                (1.0, "policy_changes", self._complete_policy_changes),
                (1.0, "voice_devices", self._voice_devices.renew),
                (CHECK_MS / 1000, "voice_checks", self._voice_checks.check),
                (10.0, "user_search", self._store.user_search.fill_when_due),
                (10.0, "removals", self._store.channel_removal.remove_due),
                (10.0, "workspace_removal", self._remove_workspaces),
                (INTERVAL_SECONDS, "retention", self._store.retention.expire_due),
                (10.0, "expired_messages", self._store.expired_removal.run),
                (10.0, "files", self.files.sweep),
                (10.0, "scans", self._scans.continue_due),
            )
        ]

    async def close(self) -> None:
        """Stop."""
        self._closing = True
        await end_tasks(self._tasks)

    async def check_redis(self) -> None:
        """Check whether Redis was lost; if so, resync the feeds of this process. Then invalidate stale caches.

        After the loss of a shard these are the feeds whose keys were on it.
        """
        await self._store.deployment.check_redis()
        # Other tasks check too, and may have noticed it first: compare with the epoch that this one saw last.
        (epoch, generation), self._epoch = self._epoch, self._read_epoch()
        if epoch and epoch != self._epoch[0]:
            _log.warning("redis_lost")
            self._resync(0 if generation == self._epoch[1] else generation)
        await self._store.stale_caches.invalidate()

    def _read_epoch(self) -> tuple[str, int]:
        deployment = self._store.deployment
        return deployment.redis_epoch, deployment.epoch_generation

    def _resync(self, generation: int) -> None:
        """Resync the feeds, devices and watches on slots whose generation is later than the given one."""
        is_later, keys = self._store.deployment.generations.is_later, self._store.keys

        def is_lost(user: UserId) -> bool:
            return is_later(keys.user(user)[0], generation)

        self._hub.resync(is_lost)
        self._shared_hub.resync(lambda owner: is_later(keys.clock(owner)[0], generation))
        self._devices.resync(is_lost)
        # Its sets are on the slots of workspaces.
        self._online.resync()
        self._presence.redis_lost(is_lost)

    async def sweep(self, partitions: range, idle_ms: int) -> int:
        """Finish outbox entries of partitions that are older than `idle_ms`.

        Returns the number of finished messages and revisions. A message that fails stays in the outbox.
        """
        found = await self._store.outbox.list_waiting(partitions, idle_ms, _ENTRIES)
        reservations = [entry for entry in found if isinstance(entry, ReservedMessage)]
        abandoned = [reserved for reserved in reservations if self._delivery.find(reserved.message.id) is None]
        if abandoned:
            _log.warning("abandoned_messages_found", messages=len(abandoned))
            await asyncio.gather(
                *(self._delivery.send(reserved, recovered=True) for reserved in abandoned), return_exceptions=True
            )
        revised = 0
        for entry in found:
            if isinstance(entry, Revision):
                finisher = self._reactions if entry.kind is RevisionKind.REACTIONS else self._revisions
                revised += await finisher.finish(entry)
            elif isinstance(entry, ThreadNote):
                self._threads.finish(entry)
        return len(abandoned) + revised

    async def _sweep_slice(self) -> None:
        """Sweep the next slice, unless another server sweeps."""
        self._store.cache.require_shared()
        lock = Call("SET", (self._store.keys.sweeper_lock,), (self._hub.server, "NX", "PX", _SWEEPER_LOCK_MS))
        if await self._store.cache.one(lock) is None:
            return
        size = PARTITIONS // _SLICES
        first, self._slice = self._slice * size, (self._slice + 1) % _SLICES
        await self.sweep(range(first, first + size), TAKEOVER_MS)

    async def _end_mutes(self) -> None:
        await self._hub.wait_for_mutes()
        await self._hub.end_mutes()

    async def _complete_policy_changes(self) -> None:
        self._store.cache.require_shared()
        await self._store.policy_changes.complete_incomplete()
        await self._store.policy_changes.complete_abandoned()
        await self._store.blocks.complete_abandoned()

    async def _rewrite_devices(self) -> None:
        self._devices.rewrite_some(round(_REWRITE_SECONDS * 1000))

    async def _remove_workspaces(self) -> None:
        await self._store.workspace_removal.run()

    async def _lease(self) -> None:
        numbers = self._store.deployment.worker_numbers
        await numbers.lease(self._store.ids, self._data_center)
        self._ring.update(await numbers.list_ring())
        await self._store.deployment.formats.check_running()

    async def _repeat(self, seconds: float, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Run periodic work at an interval, and sooner after a failure."""
        mark_as_background()
        repeated = RepeatedWork(name, work, "housekeeping_failed")
        while not self._closing:
            await asyncio.sleep(min(seconds, _RETRY_SECONDS) if repeated.is_failing else seconds)
            await repeated.run()
