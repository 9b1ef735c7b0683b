"""The application that use cases work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from resolvers.base.catch_ups import CatchUps
from resolvers.base.file_addresses import FileAddresses
from resolvers.base.known_audiences import KnownAudiences
from resolvers.base.known_parents import KnownParents
from resolvers.base.work_budgets import WorkBudgets
from resolvers.content_rules.content_hook import ContentHook
from resolvers.files.inspection.inspector import Inspector
from resolvers.push.push_service import PushService
from resolvers.voice.media.media_server import MediaServer
from store.base.ids import UserId
from store.devices.device import PushPlatform
from store.redis.request_scope import RequestScope
from store.store import Store
from subscriptions.blocks.blocker_cache import BlockerCache
from subscriptions.blocks.subscriber_blocks import SubscriberBlocks
from subscriptions.delivery.announcements.pins import PinAnnouncements
from subscriptions.delivery.coalescing.reaction_events import ReactionEvents
from subscriptions.delivery.coalescing.thread_events import ThreadEvents
from subscriptions.delivery.event_publisher import EventPublisher
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.delivery.previews.preview_worker import PreviewWorker
from subscriptions.delivery.push.stale_notifications import StaleNotifications
from subscriptions.delivery.reactions.reaction_changes import Reactions
from subscriptions.delivery.receipts.receipt_notifier import ReceiptNotifier
from subscriptions.delivery.receipts.receipt_release import ReceiptRelease
from subscriptions.delivery.reports.opened_reports import OpenedReports
from subscriptions.delivery.revisions import Revisions
from subscriptions.delivery.webhooks.webhook_notes import WebhookNotes
from subscriptions.presence.changed_memberships import ChangedMemberships
from subscriptions.presence.connected_devices import ConnectedDevices
from subscriptions.presence.live_servers import LiveServers
from subscriptions.presence.online_users import OnlineUsers
from subscriptions.presence.presence_hub import PresenceHub
from subscriptions.realtime.bans.banned_users import BannedUsers
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.replay import Replayer
from subscriptions.realtime.revocations import Revocations
from subscriptions.realtime.shared.shared_events import SharedEvents
from subscriptions.realtime.shared.watches import Watches
from subscriptions.realtime.typing_notifier import TypingNotifier
from subscriptions.realtime.user_hub import UserHub
from subscriptions.voice.voice_changes import VoiceChanges
from subscriptions.voice.voice_devices import VoiceDevices


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the product that operators may set."""

    max_group_members: int = 5_000
    recall_seconds: int = 120
    """Time for which a sender may recall their own message."""
    max_workspaces_per_user: int = 100
    max_file_bytes: int = 25 * 1024 * 1024
    max_voice_channel_users: int = 100


@dataclass(frozen=True, slots=True)
class Confab:
    """The parts of one process, passed to every use case. Has no state of its own."""

    store: Store
    hub: UserHub
    bus: Bus
    delivery: MessageDelivery
    replayer: Replayer
    receipts: ReceiptNotifier
    receipt_release: ReceiptRelease
    revisions: Revisions
    pins: PinAnnouncements
    reactions: Reactions
    reaction_events: ReactionEvents
    previews: PreviewWorker
    threads: ThreadEvents
    typing: TypingNotifier
    publisher: EventPublisher
    shared_events: SharedEvents
    watches: Watches
    live_servers: LiveServers
    devices: ConnectedDevices
    online: OnlineUsers
    presence: PresenceHub
    memberships: ChangedMemberships
    voice: VoiceChanges
    voice_devices: VoiceDevices
    subscriber_blocks: SubscriberBlocks
    blocker_cache: BlockerCache
    stale_notifications: StaleNotifications
    bans: BannedUsers
    """Users who are banned from the whole deployment."""
    limits: Limits
    addresses: FileAddresses
    public_url: str
    """Address at which clients reach the deployment, without a slash at its end."""
    webhook_notes: WebhookNotes
    """Notes events for outgoing webhooks."""
    find_refusal: Callable[[str], Awaitable[str | None]]
    """Returns why events may not be sent to an address; None: they may."""
    reports: OpenedReports
    revocations: Revocations
    """Knows whose tokens are refused, and who is being erased."""
    work: WorkBudgets = field(default_factory=WorkBudgets)
    catch_ups: CatchUps = field(default_factory=CatchUps)
    known_parents: KnownParents = field(default_factory=KnownParents)
    audiences: KnownAudiences = field(default_factory=KnownAudiences)
    inspector: Inspector = field(default_factory=Inspector)
    media: MediaServer | None = None
    """Carries sound and pictures of voice channels; None: none is set up."""
    content_hook: ContentHook | None = None
    """Judges messages and edits; None: none is set up."""
    push_services: Mapping[PushPlatform, PushService] = field(default_factory=dict)
    """The push services that are set up."""
    web_push_public_key: str | None = None
    """Public key of this deployment for Web Push; None: it is not set up."""
    allow_loopback: bool = False
    """Addresses that users give for pushes and webhooks may be on loopback, for development."""

    def request_scope(self, user: UserId | None, acted_by: UserId | None = None) -> RequestScope:
        """Return the context in which an operation of a user is executed. acted_by: who acts for the user.

        Its reads of MongoDB wait in the read queue of this user. While Redis is unavailable, it has its own cache.
        """
        return RequestScope(user, acted_by)

    @property
    def uses_fallback(self) -> bool:
        """True while requests are answered with the Redis fallback."""
        return not self.store.cache.is_shared

    async def settle_fallback(self) -> bool:
        """Complete an operation that used the Redis fallback. Call it before the operation is answered.

        Returns true if the deployment still has no Redis. The first server that reaches Redis again starts with an
        empty cache, so it loads the writes of this operation from MongoDB.

        Returns false if other servers use Redis again. The cached states that this operation changed are invalidated
        there, and its changes of rights are completed. But its reads may be older than the answers of other servers.

        Raises Unreachable if neither is certain.
        """
        deployment = self.store.deployment
        if await deployment.generations.is_away():
            return True
        await deployment.check_redis()
        await self.store.stale_caches.invalidate()
        await self.store.policy_changes.complete_incomplete()
        return False
