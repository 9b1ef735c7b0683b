"""Builds the parts of one process and connects them: databases, application, engine, background work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from resolvers.base.app import Confab, Limits
from resolvers.base.catch_ups import CatchUps
from resolvers.base.work_budgets import WorkBudgets
from resolvers.conversations.access import list_readable, list_shown_groups
from resolvers.conversations.message_viewers import list_message_viewers, list_readers, select_viewers
from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.scanner import Scanner
from resolvers.jobs.job_worker import JobWorker
from resolvers.previews.preview_fetcher import PreviewFetcher, build_preview_fetcher
from resolvers.push.push_service import PushService
from resolvers.push.worker.push_worker import PushWorker
from resolvers.voice.media.livekit_parts import LiveKitParts
from resolvers.webhooks.outgoing.webhook_parts import WebhookParts
from resolvers.workspaces.announcements import announce_change
from schema.execution.engine import Engine
from schema.execution.query_limits import QueryLimits
from server.content_hook import build_content_hook
from server.file_address_keys import file_addresses
from server.media_server import build_media_server
from server.push_services import vapid_key
from server.settings import Settings
from server.settings.public_url import public_url
from server.workers import BackgroundWorker, build_job_worker, build_push_worker
from store.devices.device import PushPlatform
from store.presence.presence_store import ChangedPresence
from store.store import Store
from subscriptions.blocks.block_changes import BlockChanges
from subscriptions.blocks.blocker_cache import BlockerCache
from subscriptions.blocks.subscriber_blocks import SubscriberBlocks
from subscriptions.delivery.announcements.pins import PinAnnouncements
from subscriptions.delivery.announcements.revision_publisher import RevisionPublisher
from subscriptions.delivery.coalescing.reaction_events import ReactionEvents
from subscriptions.delivery.coalescing.thread_events import ThreadEvents
from subscriptions.delivery.event_publisher import EventPublisher
from subscriptions.delivery.housekeeping import Housekeeper
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.message_notes import AllMessageNotes
from subscriptions.delivery.previews.preview_worker import PreviewWorker
from subscriptions.delivery.push.push_notes import PushNotes
from subscriptions.delivery.push.stale_notifications import StaleNotifications
from subscriptions.delivery.reactions.reaction_changes import Reactions
from subscriptions.delivery.receipts.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.receipts.receipt_release import ReceiptRelease
from subscriptions.delivery.reports.opened_reports import OpenedReports
from subscriptions.delivery.revisions import Revisions
from subscriptions.delivery.search.indexing import SearchIndexing
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes
from subscriptions.presence.changed_memberships import ChangedMemberships
from subscriptions.presence.connected_devices import ConnectedDevices
from subscriptions.presence.live_servers import LiveServers
from subscriptions.presence.online_users import OnlineUsers
from subscriptions.presence.presence_hub import PresenceHub
from subscriptions.presence.recovery.missing_records import MissingRecords
from subscriptions.realtime.bans.banned_users import BannedUsers
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.ephemeral_delivery import EphemeralDelivery
from subscriptions.realtime.nicknames import listen_to_nicknames
from subscriptions.realtime.replay import Replayer
from subscriptions.realtime.revocations import Revocations
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.shared.shared_events import SharedEvents
from subscriptions.realtime.shared.watches import Watches
from subscriptions.realtime.typing_notifier import TypingNotifier
from subscriptions.realtime.user_hub import UserHub
from subscriptions.voice.voice_changes import VoiceChanges
from subscriptions.voice.voice_checks import VoiceChecks
from subscriptions.voice.voice_devices import VoiceDevices


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a process that work in the background, and the application that uses them."""

    app: Confab
    housekeeper: Housekeeper
    revocations: Revocations
    ring: ServerRing
    ephemeral: EphemeralDelivery
    preview_fetcher: PreviewFetcher
    livekit: LiveKitParts | None
    missing_records: MissingRecords
    indexing: SearchIndexing
    workers: Sequence[BackgroundWorker]
    """Send pushes, and do jobs. Empty if other processes do."""
    push_worker: PushWorker | None
    job_worker: JobWorker
    webhooks: WebhookParts

    async def open(self) -> None:
        """Begin to receive, deliver and tidy up."""
        await self.app.bus.open()
        await self.app.delivery.open()
        self.indexing.open()
        await self.webhooks.open()
        await self.housekeeper.open()
        await self.app.inspector.open()
        if self.livekit is not None:
            self.livekit.open()
        for worker in self.workers:
            worker.open()

    async def close(self) -> None:
        """Stop. What causes further work for others is closed before them."""
        app = self.app
        for worker in self.workers:
            await worker.close()
        await self.app.bans.reading.close()
        await self.revocations.reading.close()
        await self.housekeeper.close()
        # Clients have had time to connect to other servers: their devices here may depart.
        await app.live_servers.close()
        await app.previews.close()
        self.preview_fetcher.close()
        await app.revisions.close()
        await app.reactions.close()
        await app.reaction_events.close()
        await app.delivery.close()
        await self.indexing.close()
        await app.stale_notifications.close()
        await self.webhooks.close()
        await app.threads.close()
        await app.receipt_release.close()
        await app.receipts.close()
        await self.ephemeral.close()
        await app.voice_devices.close()
        if self.livekit is not None:
            await self.livekit.close()
        for service in app.push_services.values():
            await service.close()
        if app.content_hook is not None:
            await app.content_hook.close()
        self.missing_records.close()
        await app.devices.close()
        await app.presence.close()
        await app.subscriber_blocks.close()
        await app.shared_events.close()
        await app.hub.close()
        await app.bus.close()
        await app.inspector.close()
        await app.store.rate_limits.close()
        await app.store.deployment.indexes.close()


def build_parts(settings: Settings, store: Store, push_services: Mapping[PushPlatform, PushService]) -> Parts:
    """Return the parts of a process. None of them works yet. push_services: empty if there are no pushes."""
    list_groups = partial(list_shown_groups, store)
    complete = store.channel_sessions.complete
    replayer = Replayer(store.sessions, store.messages, partial(list_readable, store), list_groups, complete)
    hub = UserHub(store.deployment.owner, store.sessions, replayer.since, store.clock)
    bus = Bus(store.cache, store.keys, store.session_rows, hub, store.users.invalidate, store.locks.wake_waiter)
    revocations = Revocations(store.revocations, store.erased_users, bus, store.clock)
    ring = ServerRing(hub.server, bus.calls)
    block_changes = BlockChanges(bus)
    store.blocks.announce = block_changes.announce
    subscriber_blocks = SubscriberBlocks(store.blocks, block_changes, bus)
    blocker_cache = BlockerCache(store.blocks.rows, block_changes, bus)
    shared_events = SharedEvents(store, hub.server, bus, ring, subscriber_blocks.has_blocked)
    listen_to_nicknames(bus, store.policies)
    publisher = EventPublisher(store, bus)
    receipts = ReceiptNotifier(store, publisher)
    receipt_release = ReceiptRelease(store, receipts)
    viewers = partial(list_message_viewers, store), partial(select_viewers, store)
    threads = ThreadEvents(store, bus, shared_events, partial(list_readers, store))
    indexing = SearchIndexing(store)
    stale_notifications = StaleNotifications(store.push_intents, is_enabled=bool(push_services))
    push_notes = PushNotes(store, stale_notifications, is_enabled=bool(push_services))
    webhook_notes = WebhookNotes(store, bus)
    notes = AllMessageNotes(indexing, push_notes, webhook_notes)
    delivery = MessageDelivery(store, bus, receipts, shared_events, threads, viewers[1], notes)
    revisions = Revisions(store, delivery, RevisionPublisher(store, bus, shared_events, threads, *viewers, notes))
    pins = PinAnnouncements(store, bus, delivery, shared_events, *viewers)
    reaction_events = ReactionEvents(store, bus, shared_events, *viewers, webhook_notes)
    reactions = Reactions(store, delivery)
    reactions.notify = reaction_events.notify
    inspector = Inspector(settings.temp_dir, Scanner(settings.scanner_url) if settings.scanner_url else None)
    preview_fetcher = build_preview_fetcher(
        store,
        inspector,
        allowed_networks=settings.preview_allowed_networks,
        contact=public_url(settings),
        max_picture_bytes=settings.max_file_bytes,
    )
    previews = PreviewWorker(store, revisions, preview_fetcher.find_or_fetch, is_enabled=settings.link_previews)
    reports = OpenedReports(store, webhook_notes)
    ephemeral = EphemeralDelivery(store, hub, bus)
    watches = Watches(store.watchers, hub)
    live_servers = LiveServers(store.server_times, store.clock, hub.server)
    store.presence.find_end = live_servers.find_end
    presence = PresenceHub(hub.server, store, bus, live_servers)

    def note_devices(changes: Collection[ChangedPresence]) -> None:
        presence.publish(changes)
        online.note(change.record.user for change in changes)

    devices = ConnectedDevices(
        hub.server,
        store.presence,
        store.clock,
        store.devices,
        bus,
        live_servers.find_end,
        store.cache.require_shared,
        note_devices,
    )
    online = OnlineUsers(
        hub.server,
        store.online_members,
        store.clock,
        devices.own_record,
        store.user_workspaces.list_of_many,
        live_servers.list_shown,
    )
    devices.on_setting(online.note)
    live_servers.on_return(devices.resync)
    memberships = ChangedMemberships(bus)
    memberships.on_change(online.note_workspaces)
    voice = VoiceChanges(store, shared_events)
    livekit = build_media_server(settings, store, voice, ring, bus.calls)
    web_push_key = vapid_key(settings)
    missing_records = MissingRecords(hub.server, bus, devices, presence)
    store.presence_records.on_missing = missing_records.note
    store.presence_records.on_reloaded = partial(_announce_presence, devices, presence)
    voice_devices = VoiceDevices(store, voice, devices, bus, hub.server)
    voice_checks = VoiceChecks(store, voice, live_servers.find_end)
    housekeeper = Housekeeper(
        store,
        hub,
        shared_events.hub,
        watches,
        delivery,
        revisions,
        receipt_release,
        pins,
        reactions,
        previews,
        indexing,
        threads,
        ring,
        live_servers,
        devices,
        online,
        presence,
        settings.data_center,
        inspector.scanner.accepts if inspector.scanner is not None else None,
        voice_devices=voice_devices,
        voice_checks=voice_checks,
        push_notes=push_notes,
        webhook_notes=webhook_notes,
        reports=reports,
    )
    webhooks = WebhookParts(
        store,
        bus,
        webhook_notes,
        viewers[0],
        allow_loopback=settings.allow_loopback,
        does_work=settings.workers,
    )
    list_servers = store.deployment.worker_numbers.list_ring
    bans = BannedUsers(hub.server, store.bans, bus, revocations, list_servers, store.clock)
    app = Confab(
        store,
        hub,
        bus,
        delivery,
        replayer,
        receipts,
        receipt_release,
        revisions,
        pins,
        reactions,
        reaction_events,
        previews,
        threads,
        TypingNotifier(store, bus, ephemeral, shared_events, blocker_cache.find),
        publisher,
        shared_events,
        watches,
        live_servers,
        devices,
        online,
        presence,
        memberships,
        voice,
        voice_devices,
        subscriber_blocks,
        blocker_cache,
        stale_notifications,
        bans,
        _limits(settings),
        file_addresses(settings, store.clock, store.deployment),
        public_url(settings),
        webhook_notes,
        webhooks.find_refusal,
        reports,
        revocations,
        WorkBudgets(settings.work_per_second, settings.work_budget),
        CatchUps(settings.max_catch_ups_per_user),
        inspector=inspector,
        media=livekit.server if livekit is not None else None,
        content_hook=build_content_hook(settings),
        push_services=push_services,
        web_push_public_key=web_push_key.public_text if web_push_key is not None else None,
        allow_loopback=settings.allow_loopback,
    )
    store.policy_changes.completions.announce = partial(announce_change, app)
    push_worker = build_push_worker(settings, app, push_services, push_notes)
    job_worker = build_job_worker(settings, app)
    workers: list[BackgroundWorker] = [job_worker] if push_worker is None else [push_worker, job_worker]
    return Parts(
        app,
        housekeeper,
        revocations,
        ring,
        ephemeral,
        preview_fetcher,
        livekit,
        missing_records,
        indexing,
        workers if settings.workers else (),
        push_worker,
        job_worker,
        webhooks,
    )


def _announce_presence(devices: ConnectedDevices, presence: PresenceHub, changes: Collection[ChangedPresence]) -> None:
    devices.announce(changes)
    presence.publish(changes)


def build_engine(settings: Settings, app: Confab) -> Engine:
    """Return the engine that executes operations."""
    query_limits = QueryLimits(
        max_depth=settings.max_query_depth, max_aliases=settings.max_query_aliases, max_nodes=settings.max_query_cost
    )
    return Engine(
        app,
        introspection=settings.introspection,
        limits=query_limits,
        document_cpu_share=settings.document_cpu_percent / 100,
        anonymous_cpu_share=settings.anonymous_cpu_percent / 100,
        max_waiting_events_per_user=settings.max_waiting_events_per_user,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        max_group_members=settings.max_group_members,
        recall_seconds=settings.recall_seconds,
        max_workspaces_per_user=settings.max_workspaces_per_user,
        max_file_bytes=settings.max_file_bytes,
        max_voice_channel_users=settings.max_voice_channel_users,
    )
