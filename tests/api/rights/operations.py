"""Every query, mutation and subscription that names a workspace, or something inside."""

from __future__ import annotations

from typing import Any

from store.workspaces.permissions import NOTHING, Permission
from tests.api.channels import calls, session_calls
from tests.api.client import EDIT, RECALL, SEND, Json
from tests.api.files import calls as file_calls
from tests.api.moderation import calls as moderation_calls
from tests.api.pins import calls as pin_calls
from tests.api.previews.site import SUPPRESS
from tests.api.reactions import calls as reaction_calls
from tests.api.rights.expectations import ARCHIVED, EMPTY, INVALID, INVISIBLE, NULL, OK, REFUSED, Operation
from tests.api.session_calls import ACK_MANY, ASSIGN, PIN
from tests.api.session_calls import DELETE as DELETE_SESSION
from tests.api.threads import calls as thread_calls
from tests.api.workspaces import calls as workspace_calls
from tests.api.workspaces import role_calls
from tests.webhooks.incoming.hooks import CREATE_HOOK

P = Permission


def in_channel(document: str, needs: Permission = P.VIEW_CHANNEL, /, **options: Any) -> Operation:
    """Return an operation on a channel. Its variable `id` is the channel unless others are given."""
    variables: Json = options.pop("variables", None) or {"id": "@channel"}
    return Operation(document, variables, needs, where=options.pop("where", "channel"), **options)


def in_workspace(document: str, needs: Permission = NOTHING, /, **options: Any) -> Operation:
    """Return an operation on a workspace. Its variable `id` is the workspace; `variables` has the others."""
    variables = {"id": "@workspace"} | options.pop("variables", {})
    return Operation(document, variables, needs, **options)


def inside(document: str, needs: Permission, /, **options: Any) -> Operation:
    """Return an operation that needs a permission in the workspace, and names something inside."""
    return Operation(document, options.pop("variables"), needs, **options)


def _message(**fields: Any) -> Json:
    return {"input": {"conversationId": "@channel", "content": "hello"} | fields}


TYPE = "mutation ($id: ID!) { %sTyping(conversationId: $id) }"
LEVEL = "mutation ($id: ID!) { setNotificationLevel(id: $id, level: MENTIONS) }"
DELETE_CONVERSATION = "mutation ($id: ID!) { deleteConversation(conversationId: $id) }"
CHANNEL = "query ($id: ID!) { channel(id: $id) { id members { edges { cursor } } session { id } } }"
CONVERSATION = "query ($id: ID!) { conversation(id: $id) { title lastMessage { id } } }"
NODE = "query ($id: ID!) { node(id: $id) { id } }"
MESSAGES = "query ($id: ID!) { messages(conversationId: $id) { edges { node { id } } } }"
MESSAGE = "query ($id: ID!) { message(id: $id) { id content } }"
SESSION = "query ($id: ID!) { session(conversationId: $id) { id } }"
SEARCH = 'query ($id: ID!) { searchUsers(query: "target", workspaceId: $id) { edges { cursor } } }'
SEARCH_MESSAGES = """query ($id: ID!) {
    searchMessages(query: "hello", filter: {conversationIds: [$id]}) { edges { cursor } } }"""
WORKSPACE = (
    "query ($id: ID!) { workspace(id: $id) { name members { edges { cursor } } channels { edges { cursor } } } }"
)
LIVE_CHANNEL = "subscription ($id: ID!) { channelEvents(channels: [{id: $id}]) { __typename } }"
LIVE_WORKSPACE = "subscription ($id: ID!) { workspaceEvents(workspaces: [{id: $id}]) { __typename } }"
LIVE_MESSAGES = "subscription ($id: ID) { messageEvents(conversationId: $id) { __typename } }"

_HISTORY: Json = {"also": P.VIEW_CHANNEL}

READS = {
    "seeing a channel": in_channel(CHANNEL, outside=NULL),
    "seeing a conversation": in_channel(CONVERSATION, outside=NULL),
    "seeing a node": in_channel(NODE, outside=NULL),
    "reading the history": in_channel(MESSAGES, P.READ_HISTORY, outside=NULL, refused=EMPTY, **_HISTORY),
    "reading a message": in_channel(
        MESSAGE, P.READ_HISTORY, outside=NULL, refused=NULL, variables={"id": "@message"}, **_HISTORY
    ),
    "seeing a message as a node": in_channel(
        NODE, P.READ_HISTORY, outside=NULL, refused=NULL, variables={"id": "@message"}, **_HISTORY
    ),
    "listing pinned messages": in_channel(pin_calls.PINNED, P.READ_HISTORY, refused=EMPTY, done=EMPTY, **_HISTORY),
    "listing threads": in_channel(thread_calls.LIST, P.READ_HISTORY, refused=EMPTY, done=EMPTY, **_HISTORY),
    "searching messages": in_channel(SEARCH_MESSAGES, P.READ_HISTORY, refused=EMPTY, **_HISTORY),
    "seeing no thread by the id of its channel": in_channel(thread_calls.FIND, outside=NULL, done=NULL),
    "seeing an own file": in_channel(file_calls.ATTACHMENT, outside=OK, variables={"id": "@file"}),
    "seeing the own session": in_channel(SESSION, outside=NULL, done=NULL),
    "explaining own permissions": in_channel(role_calls.EXPLAIN, variables={"channel": "@channel"}),
    "explaining permissions of others": in_channel(
        role_calls.EXPLAIN, P.MANAGE_ROLES, variables={"channel": "@channel", "user": "@target"}
    ),
    "seeing the workspace": in_workspace(WORKSPACE, outside=NULL),
    "seeing the workspace as a node": in_workspace(NODE, outside=NULL),
    "listing followed channels": in_workspace(session_calls.FOLLOWED, outside=EMPTY, done=EMPTY),
    "searching people": in_workspace(SEARCH),
    "looking at an invitation": inside(workspace_calls.PREVIEW, NOTHING, variables={"code": "@code"}, outside=OK),
    "watching a channel": in_channel(LIVE_CHANNEL),
    "watching own messages in a channel": in_channel(LIVE_MESSAGES),
    "watching the workspace": in_workspace(LIVE_WORKSPACE),
}

REPORTS = {
    "reporting a message": in_channel(
        "mutation ($id: ID!) { report(messageId: $id, reason: SPAM) { id } }",
        P.READ_HISTORY,
        refused=INVISIBLE,
        variables={"id": "@message"},
        **_HISTORY,
    ),
}

_WAVE: Json = {"id": "@message", "emoji": ":wave:"}

REACTIONS = {
    "listing who reacted": in_channel(
        reaction_calls.REACTORS, P.READ_HISTORY, refused=INVISIBLE, done=EMPTY, variables=_WAVE, **_HISTORY
    ),
    "adding a reaction": in_channel(reaction_calls.ADD, P.ADD_REACTIONS, variables=_WAVE, archived=ARCHIVED),
    "taking a reaction back": in_channel(
        reaction_calls.REMOVE,
        P.READ_HISTORY,
        refused=INVISIBLE,
        variables=_WAVE,
        archived=ARCHIVED,
        archived_comes_last=True,
        **_HISTORY,
    ),
    "clearing reactions": in_channel(
        reaction_calls.CLEAR, P.MANAGE_MESSAGES, variables={"id": "@message"}, archived=ARCHIVED
    ),
}

SENDING = {
    "sending": in_channel(SEND, P.SEND_MESSAGES, variables=_message(), archived=ARCHIVED),
    "mentioning everybody": in_channel(
        SEND, P.MENTION_EVERYONE, also=P.SEND_MESSAGES, variables=_message(mentionAll=True), archived=ARCHIVED
    ),
    "mentioning a role": in_channel(
        SEND, P.MENTION_EVERYONE, also=P.SEND_MESSAGES, variables=_message(mentionRoleIds=["@role"]), archived=ARCHIVED
    ),
    "uploading a file": in_channel(
        file_calls.CREATE_UPLOAD,
        P.ATTACH_FILES,
        also=P.SEND_MESSAGES,
        variables={"input": {"conversationId": "@channel", "filename": "a", "sizeBytes": 1}},
        archived=ARCHIVED,
    ),
    "sending a file": in_channel(
        SEND, P.ATTACH_FILES, also=P.SEND_MESSAGES, variables=_message(attachmentIds=["@file"]), archived=ARCHIVED
    ),
    "replying with a file": in_channel(
        SEND,
        P.ATTACH_FILES,
        also=P.SEND_MESSAGES | P.SEND_THREADS | P.CREATE_THREADS,
        variables={"input": {"threadOf": "@message", "content": "", "attachmentIds": ["@file"]}},
        archived=ARCHIVED,
    ),
    "editing a message of another": in_channel(
        EDIT, P.MANAGE_MESSAGES, variables={"id": "@message", "content": "changed"}, done=REFUSED
    ),
    "suppressing embeds of another": in_channel(
        SUPPRESS, P.MANAGE_MESSAGES, variables={"id": "@message"}, done=REFUSED
    ),
    "pinning": in_channel(pin_calls.PIN, P.PIN_MESSAGES, variables={"id": "@message"}, archived=ARCHIVED),
    "unpinning": in_channel(pin_calls.UNPIN, P.PIN_MESSAGES, variables={"id": "@message"}, archived=ARCHIVED),
    "recalling a message of another": in_channel(RECALL, P.MANAGE_MESSAGES, variables={"id": "@message"}),
    "typing": in_channel(TYPE % "start", P.SEND_MESSAGES, archived=ARCHIVED),
    "ending to type": in_channel(TYPE % "stop", P.SEND_MESSAGES, archived=ARCHIVED),
}

STATES = {
    "marking as read": in_channel(session_calls.READ),
    "marking many as read": in_channel(session_calls.READ_MANY, variables={"ids": ["@channel"]}),
    "acknowledging": in_channel(session_calls.ACK, variables={"id": "@channel", "seq": 1}),
    "acknowledging many": in_channel(ACK_MANY, variables={"marks": [{"conversationId": "@channel", "upToSeq": 1}]}),
    "muting": in_channel(session_calls.MUTE, variables={"id": "@channel", "muted": True}),
    "marking as unread": in_channel(session_calls.UNREAD),
    "setting the level of a channel": in_channel(LEVEL),
    "setting the level of the workspace": in_workspace(LEVEL),
    "pinning a channel": in_workspace(PIN, variables={"id": "@room"}, outside=INVALID, done=INVALID),
    "deleting the session": in_workspace(DELETE_SESSION, variables={"id": "@room"}, outside=INVALID, done=INVALID),
    "assigning a list": in_workspace(ASSIGN, variables={"id": None, "ids": ["@room"]}, outside=INVALID, done=INVALID),
    "deleting the conversation": in_channel(DELETE_CONVERSATION, done=INVALID),
    "following": in_channel(session_calls.FOLLOW, archived=ARCHIVED),
    "no longer following": in_channel(session_calls.FOLLOW, variables={"id": "@channel", "follow": False}),
    "marking all as read": in_workspace(session_calls.READ_ALL),
    "marking a category as read": in_workspace(session_calls.READ_ALL, variables={"category": "@category"}),
}

_JOIN = "mutation ($id: ID!) { joinVoice(channelId: $id) { token } }"
_MODERATE = 'mutation ($id: ID!) { moderateVoice(channelId: $id, userId: "nobody", mute: true) { mute } }'

VOICE = {
    # On a WebSocket, and in voice channels: tests/api/voice.
    "joining voice over HTTP": in_workspace(_JOIN, variables={"id": "@room"}, outside=INVALID, done=INVALID),
    "moderating voice in a text channel": in_channel(_MODERATE, done=INVALID),
}

_CHANNELS = P.MANAGE_CHANNELS
_ADDED = {"id": "@channel", "users": ["@target"]}
_OVERWRITE = {"user": "@target", "deny": ["VIEW_CHANNEL"]}

CHANNELS = {
    "creating a channel": inside(
        calls.CREATE, _CHANNELS, variables={"input": {"workspaceId": "@workspace", "name": "new"}}
    ),
    "creating a channel in a category": inside(
        calls.CREATE,
        _CHANNELS,
        variables={"input": {"workspaceId": "@workspace", "name": "new", "categoryId": "@category"}},
    ),
    "changing a channel": in_channel(calls.UPDATE, _CHANNELS, variables={"id": "@channel", "input": {"topic": "new"}}),
    "archiving a channel": in_channel(calls.ARCHIVE, _CHANNELS, fresh="channel"),
    "reopening a channel": in_channel(
        calls.ARCHIVE, _CHANNELS, variables={"id": "@channel", "archived": False}, fresh="channel"
    ),
    "deleting a channel": in_channel(calls.DELETE, _CHANNELS, fresh="channel"),
    "creating an incoming webhook": in_channel(
        CREATE_HOOK,
        P.MANAGE_WEBHOOKS,
        variables={"channel": "@channel", "name": "ci"},
        archived=ARCHIVED,
        archived_comes_last=True,
        fresh="channel",
    ),
    "creating a category": in_workspace(calls.CREATE_CATEGORY, _CHANNELS, variables={"name": "new"}),
    "changing a category": inside(calls.UPDATE_CATEGORY, _CHANNELS, variables={"id": "@category", "name": "renamed"}),
    "deleting a category": inside(calls.DELETE_CATEGORY, _CHANNELS, variables={"id": "@category"}, fresh="category"),
    "adding to a PUBLIC channel": in_channel(
        session_calls.ADD, P.INVITE_MEMBERS, variables=_ADDED, archived=ARCHIVED, archived_comes_last=True
    ),
    "adding to a PRIVATE channel": in_channel(
        session_calls.ADD,
        P.INVITE_MEMBERS,
        variables=_ADDED,
        where="private",
        archived=ARCHIVED,
        archived_comes_last=True,
    ),
    "removing from a PRIVATE channel": in_channel(
        session_calls.REMOVE,
        P.INVITE_MEMBERS,
        variables={"id": "@channel", "user": "@target"},
        where="private",
        fresh="channel",
    ),
    "setting an overwrite of a channel": in_channel(
        role_calls.SET_OVERWRITE, P.MANAGE_ROLES, variables={"channel": "@channel", **_OVERWRITE}
    ),
    "setting an overwrite of a category": inside(
        role_calls.SET_OVERWRITE, P.MANAGE_ROLES, variables={"category": "@category", **_OVERWRITE}, where="category"
    ),
}

MODERATION = {
    "kicking": in_workspace(moderation_calls.KICK, P.KICK_MEMBERS, variables={"user": "@member"}, fresh="member"),
    "timing out": in_workspace(
        moderation_calls.TIME_OUT,
        P.TIMEOUT_MEMBERS,
        variables={"user": "@member", "until": moderation_calls.later(days=1)},
        fresh="member",
    ),
    "ending a time-out": in_workspace(moderation_calls.TIME_OUT, P.TIMEOUT_MEMBERS, variables={"user": "@target"}),
    "banning": in_workspace(moderation_calls.BAN, P.BAN_MEMBERS, variables={"user": "@member"}, fresh="member"),
    "lifting a ban": in_workspace(moderation_calls.UNBAN, P.BAN_MEMBERS, variables={"user": "@target"}),
    "listing bans": in_workspace(moderation_calls.BANS, P.BAN_MEMBERS, done=EMPTY),
    "recalling messages": in_channel(
        moderation_calls.RECALL_MANY, P.MANAGE_MESSAGES, variables={"id": "@channel", "messages": ["@message"]}
    ),
}

WORKSPACES = {
    "reading the audit log": in_workspace(
        "query ($id: ID!) { auditLog(workspaceId: $id) { edges { node { id } } } }", P.VIEW_AUDIT_LOG
    ),
    "reading content rules": in_workspace(
        "query ($id: ID!) { contentRules(workspaceId: $id) { id } }", P.MANAGE_WORKSPACE
    ),
    "setting content rules": in_workspace(
        """mutation ($id: ID!) { setContentRules(
            workspaceId: $id, rules: [{words: ["unwanted"], action: BLOCK}]) { id } }""",
        P.MANAGE_WORKSPACE,
    ),
    "listing webhooks": in_workspace("query ($id: ID!) { webhooks(workspaceId: $id) { id } }", P.MANAGE_WEBHOOKS),
    # No groups are in workspaces, so nothing is sent to this address.
    "creating an outgoing webhook": in_workspace(
        """mutation ($id: ID!) { createOutgoingWebhook(
            workspaceId: $id, url: "https://8.8.8.8/", events: [GROUP_CHANGED]) { id } }""",
        P.MANAGE_WEBHOOKS,
    ),
    "listing reports": in_workspace(
        "query ($id: ID!) { reports(workspaceId: $id) { edges { cursor } } }", P.VIEW_REPORTS
    ),
    # With other actions: tests/api/reports/test_actions.py.
    "resolving a report": inside(
        "mutation ($id: ID!) { resolveReport(reportId: $id, action: NONE) { id } }",
        P.VIEW_REPORTS,
        variables={"id": "@report"},
        fresh="report",
    ),
    "creating a role": in_workspace(role_calls.CREATE_ROLE, P.MANAGE_ROLES, variables={"input": {"name": "x"}}),
    "changing a role": inside(
        role_calls.UPDATE_ROLE, P.MANAGE_ROLES, variables={"id": "@role", "input": {"name": "x"}}
    ),
    "deleting a role": inside(role_calls.DELETE_ROLE, P.MANAGE_ROLES, variables={"id": "@role"}, fresh="role"),
    "giving roles": in_workspace(
        role_calls.SET_ROLES, P.MANAGE_ROLES, variables={"user": "@target", "roles": ["@role"]}
    ),
    "changing the own nickname": in_workspace(
        workspace_calls.SET_NICKNAME, P.CHANGE_NICKNAME, variables={"nickname": "Nick"}
    ),
    "changing a nickname": in_workspace(
        workspace_calls.SET_NICKNAME, P.MANAGE_NICKNAMES, variables={"user": "@target", "nickname": "Nick"}
    ),
    "inviting": in_workspace(workspace_calls.CREATE_INVITE, P.CREATE_INVITES),
    "revoking an invitation": inside(
        workspace_calls.REVOKE_INVITE, P.MANAGE_WORKSPACE, variables={"code": "@code"}, fresh="code"
    ),
    "changing the workspace": in_workspace(
        workspace_calls.UPDATE, P.MANAGE_WORKSPACE, variables={"input": {"name": "x"}}
    ),
    "changing the plan": in_workspace(
        workspace_calls.UPDATE,
        P.MANAGE_WORKSPACE,
        variables={"input": {"plan": "PRO"}},
        done=REFUSED,
    ),
    "joining without a code": in_workspace(workspace_calls.JOIN),
    "adding to the workspace": in_workspace(
        workspace_calls.ADD, variables={"users": ["@outsider"]}, is_for_services=True
    ),
    "transferring": in_workspace(
        workspace_calls.TRANSFER, variables={"user": "@target"}, is_for_owner=True, undo=workspace_calls.TRANSFER
    ),
    "leaving": in_workspace(workspace_calls.LEAVE, owner="OWNER_CANNOT_LEAVE"),
    "deleting the workspace": in_workspace(workspace_calls.DELETE, is_for_owner=True),
}
"""The last two end memberships, so they come last."""

OPERATIONS = READS | REACTIONS | REPORTS | SENDING | STATES | VOICE | CHANNELS | MODERATION | WORKSPACES
