"""All repositories over one MongoDB and one Redis, as one object."""

from __future__ import annotations

from dataclasses import dataclass

from store.audit.audit_log import AuditLog
from store.audit.audit_reads import AuditReads
from store.base.clock import DeploymentClock
from store.base.snowflakes import Snowflakes
from store.blocks.block_store import BlockStore
from store.channels.announcements import ChannelAnnouncements
from store.channels.channel_follows import ChannelFollows
from store.channels.channel_mentions import ChannelMentions
from store.channels.channel_removal import ChannelRemoval
from store.channels.channel_rights import ChannelRightsFinder
from store.channels.channel_rows import ChannelClaims
from store.channels.channel_sessions import ChannelSessions
from store.channels.channel_sync import ChannelSync
from store.channels.member_lists import ChannelMemberLists
from store.channels.sending.channel_places import ChannelPlaces
from store.clocks.shared_clocks import SharedClocks
from store.content_rules.content_rules import ContentRules
from store.conversations.conversation_store import ConversationStore
from store.conversations.group_store import GroupStore
from store.conversations.shared_conversations import SharedConversations
from store.conversations.typing_store import TypingStore
from store.conversations.watchers import WatcherStore
from store.deployment.deployment import Deployment
from store.deployment.event_streams import EventStreamStore
from store.deployment.stale_caches import StaleCaches
from store.devices.device_store import DeviceStore
from store.erasure.user_erasure import UserErasure
from store.files.blobs.base import BlobStore
from store.files.file_claims import FileClaims
from store.files.file_removals import FileRemovals
from store.files.file_store import FileStore
from store.files.message_files import MessageFiles
from store.jobs.job_store import JobStore
from store.messages.commit_store import CommitStore
from store.messages.copy_store import CopyStore
from store.messages.idempotency_claims import ClaimStore
from store.messages.key_owners import KeyOwners
from store.messages.message_store import MessageStore
from store.messages.newest_messages import NewestMessages
from store.messages.outbox.outbox_store import OutboxStore
from store.messages.recovery.changed_messages import ChangedMessages
from store.messages.recovery.incomplete_deliveries import IncompleteDeliveries
from store.messages.reply_boundaries import ReplyBoundaries
from store.messages.revision_store import RevisionStore
from store.messages.written_messages import WrittenMessages
from store.moderation.ban_store import BanStore
from store.mongo.client import Mongo
from store.notifications.settings_store import NotificationSettingsStore
from store.pins.pin_store import PinStore
from store.presence.online_members import OnlineMembers
from store.presence.presence_cache import PresenceCache
from store.presence.presence_store import PresenceStore
from store.presence.server_times import ServerTimes
from store.presence.visibility import Visibility
from store.previews.embed_store import EmbedStore
from store.previews.host_turns import HostTurns
from store.previews.preview_cache import PreviewCache
from store.push.noted_conversations import NotedConversations
from store.push.push_intents import PushIntents
from store.reactions.reaction_store import ReactionStore
from store.receipts.held_receipts import HeldReceiptStore
from store.receipts.receipt_store import ReceiptStore
from store.redis.cache import Cache
from store.redis.keys import Keys
from store.reports.report_store import ReportStore
from store.retention.expired_removal import ExpiredRemoval
from store.retention.retention import Retention
from store.search.completeness import SearchCompleteness
from store.search.index_states import IndexStates
from store.search.search_index import SearchIndex
from store.search.unindexed_messages import UnindexedMessages
from store.sessions.loading.sessions_of_users import SessionsOfUsers
from store.sessions.session_rows import SessionRows
from store.sessions.session_store import SessionStore
from store.sessions.threads.thread_access import ThreadAccess
from store.sessions.user_locks import UserLocks
from store.sessions.user_transactions import UserTransactions
from store.threads.reply_places import ReplyPlaces
from store.threads.thread_lists import ThreadLists
from store.threads.thread_recipients import ThreadRecipients
from store.threads.thread_store import ThreadStore
from store.users.erased_users import ErasedUsers
from store.users.own_rows import OwnRows
from store.users.rate_limits import RateLimits
from store.users.revocation_store import RevocationStore
from store.users.user_conversations import UserConversations
from store.users.user_search import UserSearch
from store.users.user_store import UserStore
from store.voice.voice_store import VoiceStore
from store.webhooks.delivery_store import DeliveryStore
from store.webhooks.event_log import EventLog
from store.webhooks.event_notes import EventNotes
from store.webhooks.incoming_webhooks import IncomingWebhooks
from store.webhooks.webhook_registry import WebhookRegistry
from store.webhooks.webhook_store import WebhookStore
from store.workspaces.changing.policy_changes import PolicyChanges
from store.workspaces.copies.first_screen_reads import FirstScreenReads
from store.workspaces.invite_store import InviteStore
from store.workspaces.member_search import MemberSearch
from store.workspaces.membership_store import MembershipStore
from store.workspaces.policies import Policies
from store.workspaces.user_workspaces import UserWorkspaces
from store.workspaces.workspace_removal import WorkspaceRemoval
from store.workspaces.workspace_store import WorkspaceStore


@dataclass(frozen=True, slots=True)
class Store:
    """All repositories of one process."""

    mongo: Mongo
    cache: Cache
    keys: Keys
    clock: DeploymentClock
    ids: Snowflakes
    deployment: Deployment
    users: UserStore
    user_search: UserSearch
    user_conversations: UserConversations
    own_rows: OwnRows
    conversations: ConversationStore
    messages: MessageStore
    written_messages: WrittenMessages
    newest_messages: NewestMessages
    reply_boundaries: ReplyBoundaries
    outbox: OutboxStore
    commits: CommitStore
    key_owners: KeyOwners
    revisions: RevisionStore
    copies: CopyStore
    embeds: EmbedStore
    pins: PinStore
    claims: ClaimStore
    sessions: SessionStore
    sessions_of_users: SessionsOfUsers
    session_rows: SessionRows
    locks: UserLocks
    user_transactions: UserTransactions
    groups: GroupStore
    shared_conversations: SharedConversations
    reactions: ReactionStore
    receipts: ReceiptStore
    held_receipts: HeldReceiptStore
    thread_lists: ThreadLists
    typing: TypingStore
    watchers: WatcherStore
    revocations: RevocationStore
    erased_users: ErasedUsers
    user_erasure: UserErasure
    event_streams: EventStreamStore
    threads: ThreadStore
    reply_places: ReplyPlaces
    thread_recipients: ThreadRecipients
    preview_cache: PreviewCache
    host_turns: HostTurns
    stale_caches: StaleCaches
    incomplete_deliveries: IncompleteDeliveries
    changed_messages: ChangedMessages
    rate_limits: RateLimits
    channel_rights: ChannelRightsFinder
    channel_sessions: ChannelSessions
    channel_mentions: ChannelMentions
    channel_places: ChannelPlaces
    channel_follows: ChannelFollows
    channel_sync: ChannelSync
    channel_claims: ChannelClaims
    channel_announcements: ChannelAnnouncements
    channel_member_lists: ChannelMemberLists
    channel_removal: ChannelRemoval
    clocks: SharedClocks
    policies: Policies
    policy_changes: PolicyChanges
    thread_access: ThreadAccess
    workspaces: WorkspaceStore
    first_screens: FirstScreenReads
    user_workspaces: UserWorkspaces
    memberships: MembershipStore
    member_search: MemberSearch
    invites: InviteStore
    devices: DeviceStore
    notification_settings: NotificationSettingsStore
    files: FileStore
    file_removals: FileRemovals
    file_claims: FileClaims
    message_files: MessageFiles
    workspace_removal: WorkspaceRemoval
    blobs: BlobStore
    presence: PresenceStore
    presence_records: PresenceCache
    visibility: Visibility
    server_times: ServerTimes
    online_members: OnlineMembers
    voice: VoiceStore
    noted_conversations: NotedConversations
    push_intents: PushIntents
    search_index: SearchIndex | None
    """None: search is switched off."""
    unindexed_messages: UnindexedMessages
    index_states: IndexStates
    search_completeness: SearchCompleteness
    webhooks: WebhookStore
    webhook_registry: WebhookRegistry
    webhook_notes: EventNotes
    webhook_log: EventLog
    webhook_deliveries: DeliveryStore
    incoming_webhooks: IncomingWebhooks
    bans: BanStore
    blocks: BlockStore
    retention: Retention
    expired_removal: ExpiredRemoval
    audit: AuditLog
    reports: ReportStore
    content_rules: ContentRules
    audit_reads: AuditReads
    jobs: JobStore
