"""Permissions of the fields of all types in one table. A field without a rule fails test_authorisation.py."""

from __future__ import annotations

from collections.abc import Iterable

from graphql import GraphQLObjectType

from schema.root import SCHEMA

VISIBLE_WITH_OBJECT = """
    PrivateConversation: id type title peer
    SubBizGateway: id type title subBiz
    Channel: workspace id type title kind name topic metadata category position isArchived isDefault inheritsPermissions
    Channel: historyVisibility slowModeSeconds messageCount memberCount pinCount
    ChannelDelta: channels gone cursor hasMore attention reset
    ChannelCategory: id workspaceId name position
    ChannelConnection: edges pageInfo
    ChannelEdge: node cursor
    PermissionOverwrite: roleId userId allow deny
    Group: id type title name avatarUrl metadata memberCount historyVisibility status createdAt owner
    GroupConnection: edges pageInfo
    GroupEdge: node cursor
    GroupMemberConnection: edges pageInfo
    GroupMemberEdge: node cursor
    GroupMember: role joinedAt user
    SeqRange: fromSeq toSeq
    Message: id conversationId seq contentType content state mentionsAll editCount editedAt recalledAt
    Message: reactions embeds attachments
    Embed: type url title description siteName authorName color image thumbnail fields publishedAt
    EmbedImage: url width height
    EmbedField: name value inline
    Reaction: emoji count users firstAt
    Message: mentionedRoles createdAt sender mentions metadata authorName authorAvatarUrl recalledBy systemEvent
    Message: isPinned
    Thread: id type title parent isLocked
    ThreadConnection: edges pageInfo
    ThreadEdge: node cursor
    SystemEvent: kind actor targets text
    MessageConnection: edges pageInfo
    MessageEdge: node cursor
    SearchConnection: edges pageInfo totalAtLeast complete indexedUpTo
    SearchEdge: node cursor highlights
    TextRange: start end
    MessageCreated: message cursor
    Mentioned: message cursor
    MessageUpdated: message cursor
    MessageRecalled: message cursor
    PinsChanged: conversationId pinCount message cursor
    GroupChanged: group cursor
    ReactionsChanged: conversationId messageId reactions cursor
    ThreadChanged: parentId thread cursor
    Delivery: status recipientCount deliveredCount readCount
    Receipt: status deliveredAt readAt user
    ReceiptConnection: edges pageInfo
    ReceiptEdge: node cursor
    ReceiptAdvanced: conversationId status seq cursor user
    TypingStarted: conversationId at user
    TypingStopped: conversationId at user
    CaughtUp: cursor reset
    ChannelMessage: conversationId change message rev
    ChannelPins: conversationId pinCount message rev
    ChannelReactions: conversationId messageId reactions rev
    ChannelThread: conversationId parentId thread rev
    AccessEnded: conversationId
    ChannelCaughtUp: conversationId rev reset
    WorkspaceChanged: workspace rev
    ChannelChanged: channel rev
    ChannelGone: workspaceId channelId rev
    ChannelActivity: channelId writeSeq messageCount lastMessageAt rev
    WorkspaceCaughtUp: workspaceId rev reset
    VoiceState: user channelId selfMute selfDeaf mute deaf video screen joinedAt
    VoiceStateChanged: workspaceId state left rev
    Channel: voiceStates
    Workspace: id name domain iconUrl plan isOpen retentionDays owner memberCount createdAt
    WorkspaceConnection: edges pageInfo
    WorkspaceEdge: node cursor
    WorkspaceMember: user nickname roles joinedAt timedOutUntil
    Role: id name position color permissions permissionBits isMentionable isHoisted memberCount
    PermissionReason: permission allowed decidedBy roleId
    WorkspaceMemberConnection: edges pageInfo
    WorkspaceMemberEdge: node cursor
    Invite: code workspaceId expiresAt uses maxUses createdBy
    InvitePreview: workspaceId name iconUrl memberCount expiresAt
    User: id displayName avatarUrl isBot metadata
    Presence: user status isMobile customStatus activities lastActiveAt at
    CustomStatus: text emoji expiresAt
    Activity: type name details state startedAt endsAt
    SendMessagePayload: message replayed
    Attachment: id filename contentType sizeBytes description state url width height thumbHash thumbnailUrl spoiler
    Upload: id url method headers expiresAt
    Header: name value
    PageInfo: hasNextPage hasPreviousPage startCursor endCursor
"""
"""Visible to everybody who sees the object, with the same value for all. A recalled message has no content."""

VIEWERS_OWN = """
    PrivateConversation: lastMessage session
    SubBizGateway: lastMessage session
    Group: lastMessage session visibleRanges
    Channel: lastMessage session viewerFollows overwrites viewerPermissions viewerMayWriteAt
    ChannelCategory: overwrites
    Message: replyTo thread broadcastOf isFromBlocked
    Thread: session lastMessage replyCount participantCount participants lastReplyAt followerCount viewerFollows rev
    Reaction: viewerReacted
    SendMessagePayload: session
    Workspace: viewer viewerPermissions channels categories rev
    Channel: rev
    Session: *
    SessionConnection: edges pageInfo totalUnread cursor
    SessionEdge: node cursor
    SessionDelta: sessions cursor hasMore totalUnread reset
    Attention: unread mentions threads
    Ready: me sessions workspaces attention presence notificationSettings cursor
    NotificationSettings: *
    OwnPresence: *
    OwnMembershipChanged: workspaceId member rev
    SessionCategory: categoryId sessionCount unreadCount writeTs lastMessage
    User: presence
    VoiceJoin: state url token expiresAt
    UserConnection: edges pageInfo
    UserEdge: node cursor
    SyncSession: reason hasMore sessions totalUnread cursor reset
    Device: *
    PushResult: *
    Erasure: userId state remaining finishedAt
    ContentRule: *
    Webhook: *
    WebhookDelivery: *
    AuditEntry: *
    AuditConnection: edges pageInfo
    AuditEdge: node cursor
    WebhookDeliveryConnection: edges pageInfo
    WebhookDeliveryEdge: node cursor
    Ban: *
    BanConnection: edges pageInfo
    BanEdge: node cursor
    Report: *
    ReportConnection: edges pageInfo
    ReportEdge: node cursor
    Export: *
"""
"""Different for each viewer: their own session and numbers, and messages within their own intervals."""

SENDER_ONLY = """
    Message: idempotencyKey delivery receipts
"""
"""Null for everybody but the sender of the message."""

MEMBERS_ONLY = """
    Group: members viewerRole
    Workspace: members roles metadata onlineCount
    Channel: members
"""
"""Null, empty or 0 for former members and for users who only see that a workspace is open."""


def fields_of(rules: str) -> set[str]:
    """Return `Type.field` for all fields that a rule names. `*`: all fields of the type."""
    lines = [line.strip().partition(": ") for line in rules.strip().splitlines()]
    return {f"{name}.{field}" for name, _, fields in lines for field in _expand(name, fields)}


def _expand(type_name: str, fields: str) -> Iterable[str]:
    if fields != "*":
        return fields.split()
    named = SCHEMA._schema.type_map[type_name]
    assert isinstance(named, GraphQLObjectType)
    return named.fields
