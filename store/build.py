"""Builds the repositories over one MongoDB and one Redis, and connects them with each other."""

from __future__ import annotations

from store.audit.audit_log import AuditLog
from store.audit.audit_reads import AuditReads
from store.base.clock import DeploymentClock
from store.base.snowflakes import Snowflakes
from store.blocks.block_rows import BlockRow, BlockRows, block_row_from
from store.blocks.block_store import BlockStore
from store.channels.announcements import ChannelAnnouncements
from store.channels.channel_contents import ChannelContents
from store.channels.channel_follows import ChannelFollows
from store.channels.channel_mentions import ChannelMentions
from store.channels.channel_removal import ChannelRemoval
from store.channels.channel_rights import ChannelRightsFinder
from store.channels.channel_rows import ChannelClaims
from store.channels.channel_sessions import ChannelSessions
from store.channels.channel_sync import ChannelSync
from store.channels.member_lists import ChannelMemberLists
from store.channels.sending.channel_places import ChannelPlaces
from store.channels.sending.sending_rights import SendingRights
from store.clocks.shared_clocks import SharedClocks
from store.content_rules.content_rules import ContentRules
from store.conversations.conversation_store import ConversationStore
from store.conversations.group_store import GroupStore
from store.conversations.shared_conversations import SharedConversations
from store.conversations.typing_store import TypingStore
from store.conversations.watchers import WatcherStore
from store.deployment.deployment import Deployment
from store.deployment.event_streams import EventStreamStore
from store.deployment.redis_generations import FallbackServer
from store.deployment.stale_caches import StaleCaches
from store.devices.device_store import DeviceStore
from store.erasure.private_moves import PrivateMoves
from store.erasure.redis_clearing import RedisClearing
from store.erasure.row_rewriting import RowRewriting
from store.erasure.user_contents import UserContents
from store.erasure.user_erasure import UserErasure
from store.files.blobs.base import BlobStore
from store.files.blobs.gridfs import GridFSBlobs
from store.files.file_claims import FileClaims
from store.files.file_removals import FileRemovals
from store.files.file_store import FileStore
from store.files.message_files import MessageFiles
from store.jobs.job_store import JobStore
from store.messages.commit_store import CommitStore
from store.messages.copy_store import CopyStore
from store.messages.idempotency_claims import ClaimStore
from store.messages.key_owners import KeyOwners
from store.messages.message_origins import OriginStore
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
from store.notifications.notification_settings import fields_of, settings_from
from store.notifications.settings_rows import SettingsRows
from store.notifications.settings_store import NotificationSettingsStore
from store.pins.pin_store import PinStore
from store.presence.online_members import OnlineMembers
from store.presence.presence_cache import PresenceCache
from store.presence.presence_rows import PresenceRows
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
from store.redis.revised_records import RevisedRecords
from store.reports.flag_reports import FlagReports
from store.reports.report_store import ReportStore
from store.retention.expired_messages import ExpiredMessages
from store.retention.expired_removal import ExpiredRemoval
from store.retention.expired_rows import ExpiredRows
from store.retention.floor_store import FloorStore
from store.retention.floors import FloorFinder
from store.retention.retention import Retention
from store.retention.session_floors import SessionFloors
from store.search.completeness import SearchCompleteness
from store.search.mongo_search_index import MongoSearchIndex
from store.search.unindexed_messages import UnindexedMessages
from store.sessions.loading.sessions_of_users import SessionsOfUsers
from store.sessions.session_rows import SessionRows
from store.sessions.session_store import SessionStore
from store.sessions.threads.thread_access import ThreadAccess
from store.sessions.user_locks import UserLocks
from store.sessions.user_transactions import UserTransactions
from store.store import Store
from store.threads.reply_places import ReplyPlaces
from store.threads.thread_lists import ThreadLists
from store.threads.thread_recipients import ThreadRecipients
from store.threads.thread_store import ThreadStore
from store.users.erased_users import ErasedUsers
from store.users.own_rows import OwnRows
from store.users.rate_limits import RateLimits, RatesPerMinute
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
from store.workspaces.copies.known_workspaces import KnownWorkspaces
from store.workspaces.copies.membership_stamps import MembershipStamps
from store.workspaces.invite_store import InviteStore
from store.workspaces.member_search import MemberSearch
from store.workspaces.membership_store import MembershipStore
from store.workspaces.policies import Policies
from store.workspaces.user_workspaces import UserWorkspaces
from store.workspaces.workspace_removal import WorkspaceRemoval
from store.workspaces.workspace_store import WorkspaceStore


def build_store(
    mongo: Mongo,
    cache: Cache,
    clock: DeploymentClock,
    data_center: int,
    *,
    rates: RatesPerMinute | None = None,
    fallback: FallbackServer | None = None,
    lease_mongo: Mongo | None = None,
    has_directory: bool = False,
    blobs: BlobStore | None = None,
    has_search: bool = True,
    audit_days: int = 0,
    retention_days: int = 0,
) -> Store:
    """Connect the repositories with each other.

    Opens nothing.

    Args:
        mongo: The deployment's MongoDB.
        cache: Its Redis.
        clock: Its time.
        data_center: Part of the ids of messages.
        rates: Rates per user; None: no limits.
        fallback: The Redis to use while the deployment's is unavailable.
        lease_mongo: See Deployment.
        has_directory: Users may search the directory.
        blobs: Keeps the bytes of files; None: `mongo`.
        has_search: Messages are indexed, and can be searched.
        audit_days: Days for which entries of the audit log are kept; 0: for ever.
        retention_days: Messages of private conversations and groups expire after this time; 0: never.
    """
    keys = cache.keys
    files, file_claims = FileStore(mongo), FileClaims(mongo)
    pins = PinStore(mongo, keys, file_claims)
    deployment = Deployment(
        mongo,
        cache,
        keys,
        clock,
        fallback,
        lease_mongo=lease_mongo,
        has_directory=has_directory,
        has_search=has_search,
    )
    index = MongoSearchIndex(mongo)
    webhooks = WebhookStore(mongo)
    unindexed_messages = UnindexedMessages(cache, keys, clock)
    messages, policies = MessageStore(mongo), Policies(mongo, cache, keys)
    channel_rights = ChannelRightsFinder(mongo, policies, messages, clock)
    rows = SessionRows(mongo, clock, channel_rights.find_visible)
    sessions = SessionStore(rows, cache, keys, clock)
    conversations = ConversationStore(mongo, cache, keys)
    incoming_webhooks = IncomingWebhooks(webhooks, has_directory=has_directory)
    contents = ChannelContents(mongo, OriginStore(mongo), cache, sessions, file_claims, clock, index, webhooks)
    presence_rows = PresenceRows(mongo)
    presence_records = PresenceCache(presence_rows, cache, keys, clock)
    settings_rows = SettingsRows(mongo)
    settings_records = RevisedRecords(
        settings_rows.find, fields_of, settings_from, keys.notification_settings, cache, clock
    )
    block_rows = BlockRows(mongo)
    block_records = RevisedRecords(block_rows.find, BlockRow.to_form, block_row_from, keys.blocks, cache, clock)
    reloads = (presence_records.reload, settings_records.reload, block_records.reload)
    clocks = SharedClocks(cache, keys, clock)
    stale_caches = StaleCaches(cache, deployment.generations, conversations, sessions, clocks, reloads)
    note_stored = stale_caches.add_settings_unless_applied
    presence = PresenceStore(presence_rows, presence_records, cache, keys, clock, note_stored)
    visibility = Visibility(presence, presence_records, cache, clock)
    content_rules = ContentRules(mongo)
    sending_rights = SendingRights(policies, channel_rights, incoming_webhooks.exists_in, content_rules)
    threads = ThreadStore(mongo, keys)
    outbox = OutboxStore(cache, keys, clock)
    user_workspaces = UserWorkspaces(mongo)
    stamps = MembershipStamps(cache, keys, clock)
    workspaces = WorkspaceStore(mongo, user_workspaces, stamps)
    member_search = MemberSearch(mongo, user_workspaces)
    locks = UserLocks(cache, keys, clock, sessions, deployment.owner, stale_caches.add_user)
    channel_follows = ChannelFollows(mongo, cache, locks, sessions)
    ids, bans = Snowflakes(clock, data_center), BanStore(mongo)
    audit = AuditLog(mongo, ids, audit_days)
    reports = ReportStore(mongo, clock, audit, lambda: deployment.file_address_key)
    flag_reports = FlagReports(mongo, reports)
    revisions = RevisionStore(mongo, cache, keys, pins, file_claims, flag_reports)
    revocations = RevocationStore(mongo)
    reactions, file_removals = ReactionStore(mongo, cache, keys), FileRemovals(mongo)
    blobs = GridFSBlobs(mongo) if blobs is None else blobs
    rewriting, expired = RowRewriting(mongo), ExpiredRows(mongo, clock, deployment.owner)
    erasure = UserErasure(
        rewriting,
        PrivateMoves(mongo, rewriting, conversations, sessions, cache, expired),
        UserContents(
            mongo,
            cache,
            clock,
            messages=messages,
            revisions=revisions,
            reactions=reactions,
            removals=file_removals,
            blobs=blobs,
            index=index if has_search else None,
            conversations=conversations,
            sessions=sessions,
        ),
        RedisClearing(cache, keys),
    )
    policy_changes = PolicyChanges(mongo, cache, keys, clock, policies, audit)
    copies = CopyStore(mongo, messages, revisions)
    floors, session_floors = FloorStore(mongo, cache, keys, expired), SessionFloors(mongo, cache, sessions, clock)
    expired_messages = ExpiredMessages(mongo, cache, clock, sessions, session_floors, file_claims, copies, index)
    thread_access = ThreadAccess(mongo, cache, rows, channel_rights, clock)
    policy_changes.completions.update_threads = thread_access.update
    return Store(
        mongo=mongo,
        cache=cache,
        keys=keys,
        clock=clock,
        ids=ids,
        deployment=deployment,
        users=UserStore(mongo, has_directory=has_directory),
        user_search=UserSearch(
            mongo,
            clock,
            has_directory=has_directory,
            refresh_members=member_search.refresh_changed,
            refresh_workspaces=workspaces.refresh_search_fields,
        ),
        user_conversations=UserConversations(mongo),
        own_rows=OwnRows(mongo),
        conversations=conversations,
        messages=messages,
        written_messages=WrittenMessages(mongo, messages),
        newest_messages=NewestMessages(messages),
        reply_boundaries=ReplyBoundaries(mongo),
        outbox=outbox,
        commits=CommitStore(mongo, keys, flag_reports),
        key_owners=KeyOwners(mongo),
        revisions=revisions,
        copies=copies,
        embeds=EmbedStore(mongo),
        pins=pins,
        claims=ClaimStore(mongo, cache, keys),
        sessions=sessions,
        sessions_of_users=SessionsOfUsers(sessions, rows, cache, keys, clock),
        session_rows=rows,
        locks=locks,
        user_transactions=UserTransactions(mongo, cache, locks, rows, sessions),
        groups=GroupStore(mongo, flag_reports),
        shared_conversations=SharedConversations(mongo),
        reactions=reactions,
        receipts=ReceiptStore(mongo),
        held_receipts=HeldReceiptStore(mongo),
        thread_lists=ThreadLists(mongo),
        typing=TypingStore(cache, keys, clock, visibility),
        watchers=WatcherStore(cache, keys, clock),
        revocations=revocations,
        user_erasure=erasure,
        erased_users=ErasedUsers(revocations, clock, lambda: deployment.erased_user_key),
        event_streams=EventStreamStore(cache, keys),
        threads=threads,
        reply_places=ReplyPlaces(threads, conversations, outbox, sending_rights, clock),
        thread_recipients=ThreadRecipients(conversations, channel_rights, policies),
        preview_cache=PreviewCache(mongo, clock),
        host_turns=HostTurns(cache, keys),
        stale_caches=stale_caches,
        incomplete_deliveries=IncompleteDeliveries(mongo),
        changed_messages=ChangedMessages(mongo),
        rate_limits=RateLimits(cache, keys, rates or RatesPerMinute()),
        channel_sync=ChannelSync(cache, sessions, clocks),
        clocks=clocks,
        policies=policies,
        policy_changes=policy_changes,
        thread_access=thread_access,
        channel_rights=channel_rights,
        channel_sessions=ChannelSessions(conversations, channel_rights),
        channel_mentions=ChannelMentions(mongo, policies, channel_rights),
        channel_places=ChannelPlaces(conversations, outbox, sending_rights),
        channel_follows=channel_follows,
        channel_claims=ChannelClaims(mongo),
        channel_announcements=ChannelAnnouncements(mongo),
        channel_member_lists=ChannelMemberLists(mongo),
        channel_removal=ChannelRemoval(mongo, contents, conversations, clock),
        workspaces=workspaces,
        first_screens=FirstScreenReads(
            cache,
            sessions,
            KnownWorkspaces(cache, clocks, stamps, policies, workspaces, user_workspaces),
            presence_records,
            settings_records,
        ),
        user_workspaces=user_workspaces,
        memberships=MembershipStore(mongo, user_workspaces, locks, channel_follows, stamps, bans),
        member_search=member_search,
        invites=InviteStore(mongo),
        devices=DeviceStore(mongo),
        notification_settings=NotificationSettingsStore(settings_rows, settings_records, note_stored),
        noted_conversations=NotedConversations(cache, keys, clock),
        push_intents=PushIntents(cache, keys, clock),
        files=files,
        file_removals=file_removals,
        file_claims=file_claims,
        message_files=MessageFiles(file_claims, files, messages, outbox, cache, clock),
        workspace_removal=WorkspaceRemoval(mongo, clock, contents, webhooks, bans, reports, content_rules),
        blobs=blobs,
        presence=presence,
        presence_records=presence_records,
        visibility=visibility,
        server_times=ServerTimes(cache, keys, clock),
        online_members=OnlineMembers(cache, keys),
        voice=VoiceStore(cache, keys, clock),
        search_index=index if has_search else None,
        unindexed_messages=unindexed_messages,
        index_states=deployment.index_states,
        search_completeness=SearchCompleteness(unindexed_messages, deployment.index_states, clock),
        webhooks=webhooks,
        webhook_registry=WebhookRegistry(webhooks),
        webhook_notes=EventNotes(cache, keys),
        webhook_log=EventLog(mongo, deployment.owner),
        webhook_deliveries=DeliveryStore(mongo, deployment.owner),
        incoming_webhooks=incoming_webhooks,
        bans=bans,
        blocks=BlockStore(
            mongo,
            cache,
            clock,
            block_rows,
            block_records,
            conversations,
            note_stored,
            stale_caches.add_dropped_conversation,
        ),
        retention=Retention(
            mongo, clock, FloorFinder(mongo, messages), floors, session_floors, expired, retention_days
        ),
        expired_removal=ExpiredRemoval(mongo, expired, floors, session_floors, expired_messages),
        audit=audit,
        reports=reports,
        content_rules=content_rules,
        audit_reads=AuditReads(mongo),
        jobs=JobStore(mongo, clock),
    )
