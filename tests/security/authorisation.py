"""Permissions of the whole schema in one table. A field without a rule fails test_authorisation.py."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from graphql import GraphQLObjectType

from schema.root import SCHEMA
from tests.api.session_calls import CALLS, FIRST_OF_EACH, SessionCall

RELATIONS = ("anonymous", "outsider", "left", "removed", "member", "admin", "owner")
"""Relations of a caller to the group of a `SampleGroup`. The message in the rules was written by the member."""

OK, NULL = "ok", "null"
NO_TOKEN, INVISIBLE, FORMER_MEMBER, NOT_PERMITTED = "UNAUTHENTICATED", "NOT_FOUND", "NOT_A_MEMBER", "FORBIDDEN"


def outcomes_by_relation(outsider: str, former: str, member: str, admin: str, owner: str) -> dict[str, str]:
    """Return the outcome of a field for every relation. Every operation needs a token."""
    return dict(zip(RELATIONS, (NO_TOKEN, outsider, former, former, member, admin, owner), strict=True))


SIGNED_IN = outcomes_by_relation(OK, OK, OK, OK, OK)
"""Everybody with a token. Fields about sessions and messages return the caller's own."""
CURRENT_AND_FORMER = outcomes_by_relation(NULL, OK, OK, OK, OK)
"""Current and former members. Former members see messages of their own intervals."""
CURRENT_MEMBERS = outcomes_by_relation(NULL, NULL, OK, OK, OK)
OWN_SESSION = outcomes_by_relation(INVISIBLE, OK, OK, OK, OK)
"""Users with a session of the conversation, also an invalid one. Never sessions of others."""
MEMBERS = outcomes_by_relation(INVISIBLE, FORMER_MEMBER, OK, OK, OK)
ADMINS = outcomes_by_relation(INVISIBLE, FORMER_MEMBER, NOT_PERMITTED, OK, OK)
OWNER = outcomes_by_relation(INVISIBLE, FORMER_MEMBER, NOT_PERMITTED, NOT_PERMITTED, OK)


def in_workspace(outsider: str, member: str, owner: str) -> dict[str, str]:
    """Return the outcome of a field about the workspace of an `AuthorisationSample` for every relation to the group.

    Admins of the group are members of the workspace without a role; its former members are no members.
    """
    return outcomes_by_relation(outsider, outsider, member, member, owner)


@dataclass(frozen=True, slots=True)
class Rule:
    """One root field with one kind of argument, and its outcome for each relation.

    `changes_group` marks operations that change relations, or leave nothing to change.
    """

    field: str
    operation: str
    outcomes: dict[str, str]
    variables: dict[str, Any] = field(default_factory=dict)
    changes_group: bool = False


def query(name: str, call: str, outcomes: dict[str, str], **variables: Any) -> Rule:
    return Rule(f"Query.{name}", f"{_declare('query', variables)} {{ {call} }}", outcomes, variables)


def mutation(name: str, call: str, outcomes: dict[str, str], changes_group: bool = False, **variables: Any) -> Rule:
    return Rule(
        f"Mutation.{name}", f"{_declare('mutation', variables)} {{ {call} }}", outcomes, variables, changes_group
    )


def subscription(name: str, call: str, outcomes: dict[str, str], **variables: Any) -> Rule:
    return Rule(f"Subscription.{name}", f"{_declare('subscription', variables)} {{ {call} }}", outcomes, variables)


def session_mutation(call: SessionCall) -> Rule:
    """Return the rule of a mutation of the caller's own session."""
    (name,) = re.findall(r"\{\s*(\w+)\(", call.query)
    return Rule(f"Mutation.{name}", call.query, OWN_SESSION, call.variables_for("@group"))


def _type_of(value: Any) -> str:
    return "[ID!]!" if isinstance(value, list) else "String!" if value == "@code" else "ID!"


def _declare(kind: str, variables: dict[str, Any]) -> str:
    types = {name: _type_of(value) for name, value in variables.items()}
    return f"{kind} ({', '.join(f'${name}: {type_}' for name, type_ in types.items())})" if variables else kind


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
    mutation("startTyping", "startTyping(conversationId: $id)", MEMBERS, **_GROUP),
    mutation("stopTyping", "stopTyping(conversationId: $id)", MEMBERS, **_GROUP),
    mutation("editMessage", 'editMessage(messageId: $id, content: "new") { id }', outcomes_by_relation(INVISIBLE,
        FORMER_MEMBER, OK, NOT_PERMITTED, NOT_PERMITTED), id="@message"),
    mutation("recallMessage", "recallMessage(messageId: $id) { id }", MEMBERS, id="@message"),
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
    # Valid on a WebSocket only: tests/server/test_token_renewal.py.
    mutation("renewAuth", 'renewAuth(token: "x")', outcomes_by_relation(*["INVALID_INPUT"] * 5)),
]  # fmt: skip

VISIBLE_WITH_OBJECT = """
    PrivateConversation: id type title peer
    SubBizGateway: id type title subBiz
    Channel: workspace id type title kind name topic metadata category position isArchived isDefault inheritsPermissions
    Channel: historyVisibility slowModeSeconds messageCount memberCount
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
    Message: mentionedRoles createdAt sender mentions metadata authorName authorAvatarUrl recalledBy systemEvent
    SystemEvent: kind actor targets text
    MessageConnection: edges pageInfo
    MessageEdge: node cursor
    MessageCreated: message cursor
    Mentioned: message cursor
    MessageUpdated: message cursor
    MessageRecalled: message cursor
    GroupChanged: group cursor
    Delivery: status recipientCount deliveredCount readCount
    Receipt: status deliveredAt readAt user
    ReceiptConnection: edges pageInfo
    ReceiptEdge: node cursor
    ReceiptAdvanced: conversationId status seq cursor user
    TypingStarted: conversationId at user
    TypingStopped: conversationId at user
    CaughtUp: cursor reset
    ChannelMessage: conversationId change message rev
    AccessEnded: conversationId
    ChannelCaughtUp: conversationId rev reset
    WorkspaceChanged: workspace rev
    ChannelChanged: channel rev
    ChannelGone: workspaceId channelId rev
    ChannelActivity: channelId writeSeq messageCount lastMessageAt rev
    WorkspaceCaughtUp: workspaceId rev reset
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
    PageInfo: hasNextPage hasPreviousPage startCursor endCursor
"""
"""Visible to everybody who sees the object, with the same value for all. A recalled message has no content."""

VIEWERS_OWN = """
    PrivateConversation: lastMessage session
    SubBizGateway: lastMessage session
    Group: lastMessage session visibleRanges
    Channel: lastMessage session viewerFollows overwrites viewerPermissions viewerMayWriteAt
    ChannelCategory: overwrites
    Message: replyTo
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
    UserConnection: edges pageInfo
    UserEdge: node cursor
    SyncSession: reason hasMore sessions totalUnread cursor reset
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
