"""Permissions of the whole schema in one table. A field without a rule fails test_authorisation.py."""

from __future__ import annotations

from collections.abc import Iterable

from graphql import GraphQLObjectType

from schema.root import SCHEMA
from tests.api.session_calls import CALLS, FIRST_OF_EACH
from tests.security.rules import (
    ADMINS,
    CURRENT_AND_FORMER,
    CURRENT_MEMBERS,
    FORMER_MEMBER,
    INVISIBLE,
    MEMBERS,
    NOT_PERMITTED,
    NULL,
    OK,
    OWN_SESSION,
    OWNER,
    SIGNED_IN,
    THREAD_VIEWERS,
    in_workspace,
    mutation,
    outcomes_by_relation,
    query,
    session_mutation,
    subscription,
)

_GROUP = {"id": "@group"}

ROOT_FIELDS = [
    query("me", "me { id }", SIGNED_IN),
    query("user", "user(id: $id) { id displayName }", SIGNED_IN, id="@member"),
    query("users", "users(ids: $ids) { id displayName }", SIGNED_IN, ids=["@member"]),
    query("searchUsers", 'searchUsers(query: "a") { edges { node { id } } }', SIGNED_IN),
    query("searchUsers", 'searchUsers(query: "a", workspaceId: "w_1") { edges { node { id } } }',
        outcomes_by_relation(*[INVISIBLE] * 5)),
    query("searchUsers", 'searchUsers(query: "a", workspaceId: $id) { edges { node { id } } }',
        in_workspace(INVISIBLE, OK, OK), id="@workspace"),
    query("attention", "attention { unread mentions threads }", SIGNED_IN),
    query("ready", "ready { me { id } sessions { totalUnread } workspaces { id } cursor }", SIGNED_IN),
    query("sessions", "sessions { totalUnread }", SIGNED_IN),
    query("session", "session(conversationId: $id) { id }", CURRENT_AND_FORMER, **_GROUP),
    query("syncSessions", "syncSessions { cursor }", SIGNED_IN),
    query("totalUnread", "totalUnread", SIGNED_IN),
    query("sessionCategories", "sessionCategories { categoryId }", SIGNED_IN),
    query("messages", "messages(conversationId: $id) { edges { node { id } } }", CURRENT_AND_FORMER, **_GROUP),
    query("message", "message(id: $id) { content }", CURRENT_AND_FORMER, id="@message"),
    query("message", "message(id: $id) { content }", CURRENT_MEMBERS, id="@later"),
    query("offlineMessages", "offlineMessages { edges { node { id } } }", SIGNED_IN),
    query("conversation", "conversation(id: $id) { id title }", CURRENT_AND_FORMER, **_GROUP),
    query("followedChannels", "followedChannels(workspaceId: $id) { edges { cursor } }", SIGNED_IN, id="@workspace"),
    mutation("markChannelsRead", "markChannelsRead(workspaceId: $id) { unread }", in_workspace(INVISIBLE, OK, OK),
        id="@workspace"),
    mutation("setNotificationLevel", "setNotificationLevel(id: $id, level: NONE)", OWN_SESSION, **_GROUP),
    mutation("setNotificationLevel", "setNotificationLevel(id: $id, level: NONE)", in_workspace(INVISIBLE, OK, OK),
        id="@channel"),
    mutation("setNotificationLevel", "setNotificationLevel(id: $id, level: NONE)",
        in_workspace(INVISIBLE, INVISIBLE, OK), id="@secret"),
    mutation("setNotificationLevel", "setNotificationLevel(id: $id, level: NONE)", in_workspace(INVISIBLE, OK, OK),
        id="@workspace"),
    mutation("addToChannel", "addToChannel(channelId: $id, userIds: []) { id }",
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@channel"),
    mutation("addToChannel", "addToChannel(channelId: $id, userIds: []) { id }",
        in_workspace(INVISIBLE, INVISIBLE, OK), id="@secret"),
    mutation("removeFromChannel", "removeFromChannel(channelId: $id, userId: $user) { id }",
        in_workspace(INVISIBLE, INVISIBLE, "NOT_A_MEMBER"), id="@secret", user="@outsider"),
    query("syncChannels", "syncChannels { cursor }", SIGNED_IN),
    mutation("followChannel", "followChannel(channelId: $id) { id }", in_workspace(INVISIBLE, OK, OK), id="@channel"),
    mutation("followChannel", "followChannel(channelId: $id) { id }", in_workspace(INVISIBLE, INVISIBLE, OK),
        id="@secret"),
    query("channel", 'channel(id: "c_1.1") { name }', outcomes_by_relation(*[NULL] * 5)),
    query("channel", "channel(id: $id) { name }", in_workspace(NULL, OK, OK), id="@channel"),
    query("channel", "channel(id: $id) { name }", in_workspace(NULL, NULL, OK), id="@secret"),
    query("channel", "channel(id: $id) { members { edges { node { joinedAt } } } }",
        in_workspace(NULL, OK, OK), id="@channel"),
    query("node", "node(id: $id) { id }", in_workspace(NULL, NULL, OK), id="@secret"),
    query("conversation", "conversation(id: $id) { title }", in_workspace(NULL, OK, OK), id="@channel"),
    query("conversation", "conversation(id: $id) { title }", in_workspace(NULL, NULL, OK), id="@secret"),
    query("messages", "messages(conversationId: $id) { edges { cursor } }", in_workspace(NULL, OK, OK), id="@channel"),
    query("messages", "messages(conversationId: $id) { edges { cursor } }", in_workspace(NULL, NULL, OK), id="@secret"),
    mutation("sendMessage", 'sendMessage(input: {conversationId: $id, content: "hi"}) { message { id } }',
        in_workspace(INVISIBLE, OK, OK), id="@channel"),
    mutation("sendMessage", 'sendMessage(input: {conversationId: $id, content: "hi"}) { message { id } }',
        in_workspace(INVISIBLE, INVISIBLE, OK), id="@secret"),
    mutation("sendMessage",
        'sendMessage(input: {conversationId: $id, content: "hi", mentionAll: true}) { message { id } }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@channel"),
    mutation("startTyping", "startTyping(conversationId: $id)", in_workspace(INVISIBLE, INVISIBLE, OK), id="@secret"),
    mutation("stopTyping", "stopTyping(conversationId: $id)", in_workspace(INVISIBLE, OK, OK), id="@channel"),
    mutation("createChannel", 'createChannel(input: {workspaceId: $id, name: "new"}) { id }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@workspace"),
    mutation("updateChannel", 'updateChannel(channelId: $id, input: {name: "new"}) { id }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@channel"),
    mutation("updateChannel", 'updateChannel(channelId: $id, input: {name: "new"}) { id }',
        in_workspace(INVISIBLE, INVISIBLE, OK), id="@secret"),
    mutation("archiveChannel", "archiveChannel(channelId: $id) { id }", in_workspace(INVISIBLE, NOT_PERMITTED, OK),
        True, id="@channel"),
    mutation("deleteChannel", "deleteChannel(channelId: $id)", in_workspace(INVISIBLE, NOT_PERMITTED, OK), True,
        id="@channel"),
    query("node", "node(id: $id) { id }", in_workspace(NULL, OK, OK), id="@channel_category"),
    mutation("createCategory", 'createCategory(workspaceId: $id, name: "new") { id }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@workspace"),
    mutation("updateCategory", 'updateCategory(categoryId: $id, name: "new") { id }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@channel_category"),
    mutation("deleteCategory", "deleteCategory(categoryId: $id)", in_workspace(INVISIBLE, NOT_PERMITTED, OK), True,
        id="@channel_category"),
    query("group", "group(id: $id) { name }", CURRENT_AND_FORMER, **_GROUP),
    query("myGroups", "myGroups { edges { node { id } } }", SIGNED_IN),
    query("node", "node(id: $id) { id }", CURRENT_AND_FORMER, **_GROUP),
    query("node", "node(id: $id) { id }", CURRENT_AND_FORMER, id="@message"),
    query("node", "node(id: $id) { id }", CURRENT_MEMBERS, id="@later"),
    query("node", "node(id: $id) { id }", outcomes_by_relation(NULL, NULL, NULL, NULL, OK), id="@owners_session"),
    query("node", "node(id: $id) { id }", SIGNED_IN, id="@member"),
    subscription("syncSession", "syncSession { cursor }", SIGNED_IN),
    subscription("messageEvents", "messageEvents { __typename }", SIGNED_IN),
    subscription("messageEvents", "messageEvents(conversationId: $id) { __typename }", OWN_SESSION, **_GROUP),
    subscription("channelEvents", 'channelEvents(channels: [{id: "c_1.1"}]) { __typename }',
        outcomes_by_relation(*[INVISIBLE] * 5)),
    subscription("workspaceEvents", "workspaceEvents(workspaces: [{id: $id}]) { __typename }",
        in_workspace(INVISIBLE, OK, OK), id="@workspace"),
    mutation("upsertUsers", 'upsertUsers(input: [{id: "made", displayName: "Made"}]) { id }',
        outcomes_by_relation(NOT_PERMITTED, NOT_PERMITTED, NOT_PERMITTED, NOT_PERMITTED, NOT_PERMITTED)),
    mutation("updateMe", "updateMe(metadata: {a: 1}) { id }", SIGNED_IN),
    *(session_mutation(CALLS[name]) for name in FIRST_OF_EACH),
    mutation("ackDelivered", "ackDelivered(conversationId: $id, upToSeq: 1) { id }", OWN_SESSION, **_GROUP),
    mutation("ackManyDelivered", "ackManyDelivered(marks: [{conversationId: $id, upToSeq: 1}]) { id }", OWN_SESSION,
        **_GROUP),
    mutation("sendMessage", 'sendMessage(input: {conversationId: $id, content: "hi"}) { message { id } }', MEMBERS,
        **_GROUP),
    mutation(
        "sendMessage",
        'sendMessage(input: {conversationId: $id, content: "hi", mentionAll: true}) { message { id } }',
        ADMINS,
        **_GROUP,
    ),
    mutation("sendMessage", 'sendMessage(input: {toUserId: $id, content: "hi"}) { message { id } }', SIGNED_IN,
        id="@other_member"),
    query("thread", "thread(id: $id) { title }", CURRENT_MEMBERS, id="@thread"),
    query("conversation", "conversation(id: $id) { title }", CURRENT_MEMBERS, id="@thread"),
    query("node", "node(id: $id) { id }", CURRENT_MEMBERS, id="@thread"),
    query("messages", "messages(conversationId: $id) { edges { cursor } }", CURRENT_MEMBERS, id="@thread"),
    query("threads", "threads(conversationId: $id) { edges { cursor } }", OWN_SESSION, **_GROUP),
    query("threads", "threads(conversationId: $id) { edges { cursor } }", in_workspace(INVISIBLE, OK, OK),
        id="@channel"),
    query("threads", "threads(conversationId: $id) { edges { cursor } }", in_workspace(INVISIBLE, INVISIBLE, OK),
        id="@secret"),
    mutation("followThread", "followThread(threadId: $id) { id }", THREAD_VIEWERS, id="@thread"),
    mutation("lockThread", "lockThread(threadId: $id) { id }", THREAD_VIEWERS, True, id="@thread"),
    mutation("sendMessage", 'sendMessage(input: {threadOf: $id, content: "hi"}) { message { id } }', MEMBERS,
        id="@message"),
    mutation("sendMessage", 'sendMessage(input: {conversationId: $id, content: "hi"}) { message { id } }',
        THREAD_VIEWERS, id="@thread"),
    mutation("startTyping", "startTyping(conversationId: $id)", MEMBERS, **_GROUP),
    mutation("stopTyping", "stopTyping(conversationId: $id)", MEMBERS, **_GROUP),
    mutation("editMessage", 'editMessage(messageId: $id, content: "new") { id }', outcomes_by_relation(INVISIBLE,
        FORMER_MEMBER, OK, NOT_PERMITTED, NOT_PERMITTED), id="@message"),
    mutation("suppressEmbeds", "suppressEmbeds(messageId: $id) { id }", outcomes_by_relation(INVISIBLE,
        FORMER_MEMBER, OK, NOT_PERMITTED, NOT_PERMITTED), id="@message"),
    mutation("pinMessage", "pinMessage(messageId: $id) { id }", ADMINS, id="@message"),
    mutation("unpinMessage", "unpinMessage(messageId: $id) { id }", ADMINS, id="@message"),
    query("pinnedMessages", "pinnedMessages(conversationId: $id) { edges { cursor } }", OWN_SESSION, **_GROUP),
    query("pinnedMessages", "pinnedMessages(conversationId: $id) { edges { cursor } }", in_workspace(INVISIBLE, OK, OK),
        id="@channel"),
    query("pinnedMessages", "pinnedMessages(conversationId: $id) { edges { cursor } }",
        in_workspace(INVISIBLE, INVISIBLE, OK), id="@secret"),
    mutation("addReaction", 'addReaction(messageId: $id, emoji: ":wave:") { id }', MEMBERS, id="@message"),
    mutation("removeReaction", 'removeReaction(messageId: $id, emoji: ":wave:") { id }', MEMBERS, id="@message"),
    mutation("clearReactions", "clearReactions(messageId: $id) { id }", ADMINS, id="@message"),
    query("reactors", 'reactors(messageId: $id, emoji: ":wave:") { edges { cursor } }', OWN_SESSION, id="@message"),
    mutation("recallMessage", "recallMessage(messageId: $id) { id }", MEMBERS, id="@message"),
    mutation("createUpload",
        'createUpload(input: {conversationId: $id, filename: "a", sizeBytes: 1}) { id }', MEMBERS, **_GROUP),
    mutation("createUpload", 'createUpload(input: {conversationId: $id, filename: "a", sizeBytes: 1}) { id }',
        in_workspace(INVISIBLE, INVISIBLE, OK), id="@secret"),
    # Files of others, and files in messages: tests/api/files/.
    mutation("completeUpload", 'completeUpload(uploadId: "f_1") { id }', outcomes_by_relation(*[INVISIBLE] * 5)),
    mutation("cancelUpload", 'cancelUpload(uploadId: "f_1")', SIGNED_IN),
    query("attachment", 'attachment(id: "f_1") { id }', outcomes_by_relation(*[NULL] * 5)),
    mutation("createGroup", 'createGroup(input: {name: "Mine", memberIds: $ids}) { id }', SIGNED_IN,
        ids=["@other_member", "@other_admin"]),
    mutation("updateGroup", 'updateGroup(groupId: $id, input: {name: "New"}) { id }', ADMINS, **_GROUP),
    mutation("inviteMembers", "inviteMembers(groupId: $id, userIds: $ids) { id }", MEMBERS, ids=["@outsider"],
        **_GROUP),
    mutation("setMemberRole", "setMemberRole(groupId: $id, userId: $user, role: ADMIN) { id }", OWNER,
        user="@other_member", **_GROUP),
    mutation("removeMember", "removeMember(groupId: $id, userId: $user) { id }", OWNER, user="@other_admin", **_GROUP),
    mutation("removeMember", "removeMember(groupId: $id, userId: $user) { id }", ADMINS, True, user="@other_member",
        **_GROUP),
    mutation("leaveGroup", "leaveGroup(groupId: $id)", outcomes_by_relation(INVISIBLE, FORMER_MEMBER, OK, OK,
        "OWNER_CANNOT_LEAVE"), True, **_GROUP),
    mutation("transferOwner", "transferOwner(groupId: $id, userId: $user) { id }", OWNER, True,
        user="@other_member", **_GROUP),
    mutation("dismissGroup", "dismissGroup(groupId: $id)", OWNER, True, **_GROUP),
    mutation("deleteConversation", "deleteConversation(conversationId: $id)", OWNER, True, **_GROUP),
    query("workspace", "workspace(id: $id) { name members { edges { node { joinedAt } } } }",
        in_workspace(NULL, OK, OK), id="@workspace"),
    query("workspace", "workspace(id: $id) { name }", SIGNED_IN, id="@open_workspace"),
    query("node", "node(id: $id) { id }", in_workspace(NULL, OK, OK), id="@workspace"),
    query("myWorkspaces", "myWorkspaces { edges { node { id } } }", SIGNED_IN),
    query("openWorkspaces", "openWorkspaces { edges { node { id } } }", SIGNED_IN),
    query("invite", 'invite(code: "1-aaaaaaaaaaaaaaaa") { name }', in_workspace(NULL, NULL, NULL)),
    mutation("createWorkspace", 'createWorkspace(input: {name: "Mine"}) { id }', SIGNED_IN),
    mutation("joinWorkspace", "joinWorkspace(workspaceId: $id) { id }", in_workspace(INVISIBLE, OK, OK),
        id="@workspace"),
    mutation("joinWorkspace", "joinWorkspace(workspaceId: $id) { id }", SIGNED_IN, id="@open_workspace"),
    mutation("createInvite", "createInvite(workspaceId: $id) { code }", in_workspace(INVISIBLE, OK, OK),
        id="@workspace"),
    mutation("revokeInvite", "revokeInvite(code: $id)", in_workspace(INVISIBLE, NOT_PERMITTED, OK), True,
        id="@code"),
    mutation("updateWorkspace", 'updateWorkspace(workspaceId: $id, input: {name: "New"}) { id }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@workspace"),
    mutation("updateWorkspace", 'updateWorkspace(workspaceId: $id, input: {name: "New"}) { id }',
        outcomes_by_relation(INVISIBLE, INVISIBLE, INVISIBLE, INVISIBLE, OK), id="@open_workspace"),
    mutation("updateWorkspace", "updateWorkspace(workspaceId: $id, input: {plan: PRO, isOpen: false}) { id }",
        in_workspace(INVISIBLE, NOT_PERMITTED, NOT_PERMITTED), id="@workspace"),
    mutation("setNickname", 'setNickname(workspaceId: $id, nickname: "Nick") { nickname }',
        in_workspace(INVISIBLE, OK, OK), id="@workspace"),
    mutation("setNickname", 'setNickname(workspaceId: $id, userId: $user, nickname: "Nick") { nickname }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@workspace", user="@other_member"),
    mutation("transferWorkspace", "transferWorkspace(workspaceId: $id, userId: $user) { id }",
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), True, id="@workspace", user="@other_member"),
    mutation("createRole", 'createRole(workspaceId: $id, input: {name: "x"}) { id }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@workspace"),
    mutation("updateRole", 'updateRole(roleId: $id, input: {name: "x"}) { id }',
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@role"),
    mutation("deleteRole", "deleteRole(roleId: $id)", in_workspace(INVISIBLE, NOT_PERMITTED, OK), True, id="@role"),
    mutation("setMemberRoles", "setMemberRoles(workspaceId: $id, userId: $user, roleIds: []) { nickname }",
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@workspace", user="@other_member"),
    mutation("setPermissionOverwrite", "setPermissionOverwrite(channelId: $id, userId: $user) { userId }",
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@channel", user="@other_member"),
    query("explainPermissions", "explainPermissions(channelId: $id) { permission }", in_workspace(INVISIBLE, OK, OK),
        id="@channel"),
    query("explainPermissions", "explainPermissions(channelId: $id, userId: $user) { permission }",
        in_workspace(INVISIBLE, NOT_PERMITTED, OK), id="@channel", user="@other_member"),
    query("node", "node(id: $id) { id }", in_workspace(NULL, OK, OK), id="@role"),
    mutation("leaveWorkspace", "leaveWorkspace(workspaceId: $id)", in_workspace(INVISIBLE, OK, "OWNER_CANNOT_LEAVE"),
        True, id="@workspace"),
    mutation("deleteWorkspace", "deleteWorkspace(workspaceId: $id)", in_workspace(INVISIBLE, NOT_PERMITTED, OK), True,
        id="@workspace"),
    # For services and admins only.
    mutation("addToWorkspace", "addToWorkspace(workspaceId: $id, userIds: $ids) { id }",
        in_workspace(NOT_PERMITTED, NOT_PERMITTED, NOT_PERMITTED), id="@workspace", ids=["@outsider"]),
    # The id of a device has a meaning only together with its user: tests/api/devices/.
    query("devices", "devices { id }", SIGNED_IN),
    mutation("registerDevice", 'registerDevice(input: {id: "phone", type: MOBILE}) { id }', SIGNED_IN),
    mutation("removeDevice", 'removeDevice(deviceId: "another")', outcomes_by_relation(*[INVISIBLE] * 5)),
    # Valid on a WebSocket only: tests/server/test_token_renewal.py.
    mutation("renewAuth", 'renewAuth(token: "x")', outcomes_by_relation(*["INVALID_INPUT"] * 5)),
    # Valid on a WebSocket only: tests/api/voice.
    mutation("joinVoice", "joinVoice(channelId: $id) { token }", outcomes_by_relation(*["INVALID_INPUT"] * 5),
        id="@channel"),
    mutation("updateVoice", "updateVoice(selfMute: true) { joinedAt }", outcomes_by_relation(*["INVALID_INPUT"] * 5)),
    mutation("leaveVoice", "leaveVoice", outcomes_by_relation(*["INVALID_INPUT"] * 5)),
    # The channel is none for voice. Rights: tests/api/voice/test_moderating.py.
    mutation("moderateVoice", "moderateVoice(channelId: $id, userId: $user, mute: true) { mute }",
        in_workspace(INVISIBLE, "INVALID_INPUT", "INVALID_INPUT"), id="@channel", user="@member"),
]  # fmt: skip

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
    Workspace: id name domain iconUrl plan isOpen owner memberCount createdAt
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
    Message: replyTo thread broadcastOf
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
    Ready: me sessions workspaces attention cursor
    OwnMembershipChanged: workspaceId member rev
    SessionCategory: categoryId sessionCount unreadCount writeTs lastMessage
    VoiceJoin: state url token expiresAt
    UserConnection: edges pageInfo
    UserEdge: node cursor
    SyncSession: reason hasMore sessions totalUnread cursor reset
    Device: *
"""
"""Different for each viewer: their own session and numbers, and messages within their own intervals."""

SENDER_ONLY = """
    Message: idempotencyKey delivery receipts
"""
"""Null for everybody but the sender of the message."""

MEMBERS_ONLY = """
    Group: members viewerRole
    Workspace: members roles metadata
    Channel: members
"""
"""Null, or empty, for former members and for users who only see that a workspace is open."""


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
