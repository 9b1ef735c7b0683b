"""Every mutation of the schema: its entry in the audit log, or why it has none. A new one fails the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api.moderation.calls import later

WORKSPACE, DEPLOYMENT = "workspace", "deployment"


@dataclass(frozen=True)
class Audited:
    """A mutation and its entry. Texts with @ stand for ids of an `AuditSample`.

    Attributes:
        call: The mutation.
        target: `targetId` of the entry. @new: the id in the response.
        before: Names of the values before the change.
        after: Names of the values after it.
        log: The log with the entry.
        by: Who performs it.
        role: The role of the token.
        refused_to: A user who may not do it.
        repeats: A second call changes nothing.
        has_transaction: False: the entry is stored before the change.
    """

    call: str
    target: str
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    log: str = WORKSPACE
    by: str = "@owner"
    role: str = "user"
    refused_to: str = "@member"
    repeats: bool = False
    has_transaction: bool = True

    @property
    def mutation(self) -> str:
        return self.call.partition("(")[0]


def _audited(call: str, target: str, before: str = "", after: str = "", **more: Any) -> Audited:
    return Audited(call, target, frozenset(before.split()), frozenset(after.split()), **more)


def _of_group(call: str, target: str, before: str = "", after: str = "", **more: Any) -> Audited:
    return _audited(call, target, before, after, **({"log": DEPLOYMENT, "refused_to": "@other_member"} | more))


_CHANNEL = """name kind topic categoryId position isDefault isArchived inheritsPermissions historyVisibility
    slowModeSeconds metadata"""
_PROFILE = "name domain iconUrl isOpen plan retentionDays metadata"
_ROLE = "name position color permissions isMentionable isHoisted"

AUDITED = (
    _audited('createWorkspace(input: {name: "New"}) { id }', "@new", after=_PROFILE, refused_to=""),
    _audited('updateWorkspace(workspaceId: "@workspace", input: {name: "x", isOpen: true}) { id }', "@workspace",
        "name isOpen", "name isOpen", repeats=True),
    _audited('deleteWorkspace(workspaceId: "@workspace")', "@workspace", f"{_PROFILE} ownerId memberCount"),
    _audited('transferWorkspace(workspaceId: "@workspace", userId: "@member") { id }', "@member", "ownerId", "ownerId"),
    _audited('joinWorkspace(code: "@code") { id }', "@outsider", after="code", by="@outsider", refused_to="",
        repeats=True),
    _audited('leaveWorkspace(workspaceId: "@workspace")', "@member", "roleIds nickname", by="@member",
        refused_to="@owner"),
    _audited('setNickname(workspaceId: "@workspace", userId: "@member", nickname: "Nick") { nickname }', "@member",
        "nickname", "nickname", refused_to="@other_member", repeats=True),
    _audited('addToWorkspace(workspaceId: "@workspace", userIds: ["@outsider"]) { id }', "@outsider", role="service",
        by="@removed", repeats=True),
    _audited('createInvite(workspaceId: "@workspace", maxUses: 3) { code }', "…", after="expiresAt maxUses uses",
        refused_to="@outsider"),
    _audited('revokeInvite(code: "@code")', "…", "expiresAt maxUses uses"),
    _audited('createChannel(input: {workspaceId: "@workspace", name: "new"}) { id }', "@new",
        after=f"{_CHANNEL} memberIds"),
    _audited('updateChannel(channelId: "@channel", input: {topic: "x", slowModeSeconds: 5}) { id }', "@channel",
        "topic slowModeSeconds", "topic slowModeSeconds", repeats=True),
    _audited('archiveChannel(channelId: "@channel") { id }', "@channel", "isArchived", "isArchived", repeats=True),
    _audited('deleteChannel(channelId: "@channel")', "@channel", _CHANNEL),
    _audited('createCategory(workspaceId: "@workspace", name: "new") { id }', "@new", after="name position"),
    _audited('updateCategory(categoryId: "@channel_category", name: "x") { id }', "@channel_category", "name", "name",
        repeats=True),
    _audited('deleteCategory(categoryId: "@channel_category")', "@channel_category", "name position"),
    _audited('addToChannel(channelId: "@secret", userIds: ["@other_member"]) { id }', "@other_member",
        after="channelId", repeats=True),
    _audited('addToChannel(channelId: "@channel", userIds: ["@other_member"]) { id }', "@other_member",
        after="channelId", repeats=True),
    _audited('removeFromChannel(channelId: "@secret", userId: "@member") { id }', "@member", "channelId"),
    _audited('createRole(workspaceId: "@workspace", input: {name: "x", permissions: [KICK_MEMBERS]}) { id }', "@new",
        after=_ROLE),
    _audited('updateRole(roleId: "@role", input: {permissions: [BAN_MEMBERS]}) { id }', "@role", "permissions",
        "permissions", repeats=True),
    _audited('deleteRole(roleId: "@role")', "@role", _ROLE),
    _audited('setMemberRoles(workspaceId: "@workspace", userId: "@member", roleIds: ["@role"]) { nickname }', "@member",
        "roleIds", "roleIds", repeats=True),
    _audited('setPermissionOverwrite(channelId: "@channel", roleId: "@role", allow: [], deny: [SEND_MESSAGES]) '
        "{ roleId }", "@channel", "deny", "channelId roleId deny", repeats=True),
    _audited('setPermissionOverwrite(categoryId: "@channel_category", userId: "@member", allow: [PIN_MESSAGES], '
        "deny: []) { roleId }", "@member", "allow", "categoryId allow", repeats=True),
    _audited('lockThread(threadId: "@channel_thread") { id }', "@channel_thread", "isLocked", "isLocked",
        refused_to="@other_member", repeats=True),
    _of_group('lockThread(threadId: "@thread") { id }', "@thread", "isLocked", "isLocked", repeats=True),
    _audited('recallMessage(messageId: "@posted") { id }', "@member", "messageId conversationId",
        refused_to="@other_member", repeats=True),
    _of_group('recallMessage(messageId: "@message") { id }', "@member", "messageId conversationId", repeats=True),
    _audited('clearReactions(messageId: "@posted") { id }', "@posted", "conversationId reactions", repeats=True),
    _of_group('clearReactions(messageId: "@message") { id }', "@message", "conversationId reactions", repeats=True),
    _audited('createIncomingWebhook(channelId: "@channel", name: "x") { id }', "@new", after="kind name channelIds"),
    _audited('createOutgoingWebhook(url: "https://8.8.8.8/", events: [REPORT_OPENED], workspaceId: "@workspace") '
        "{ id }", "@new", after="kind host events"),
    _audited('rotateWebhookSecret(webhookId: "@hook") { id }', "@hook"),
    _audited('rotateWebhookSecret(webhookId: "@outgoing") { id }', "@outgoing"),
    _audited('deleteWebhook(webhookId: "@hook")', "@hook", "kind name channelIds"),
    _audited('deleteWebhook(webhookId: "@outgoing")', "@outgoing", "kind host events"),
    _audited('redeliverWebhook(webhookId: "@outgoing", since: "2026-01-01T00:00:00.000Z")', "@outgoing", "state",
        "since", has_transaction=False),
    _audited('moderateVoice(channelId: "@lounge", userId: "@member", mute: true) { mute }', "@member", "mute", "mute",
        repeats=True, has_transaction=False),
    _audited('moderateVoice(channelId: "@lounge", userId: "@member", disconnect: true) { mute }', "@member",
        "channelId", "channelId", has_transaction=False),
    _audited('kickMember(workspaceId: "@workspace", userId: "@member", reason: "x")', "@member", "roleIds nickname",
        refused_to="@other_member"),
    _audited('banUser(workspaceId: "@workspace", userId: "@member", reason: "x") { reason }', "@member",
        after="until reason deleteSeconds", refused_to="@other_member", repeats=True),
    _audited('unbanUser(workspaceId: "@workspace", userId: "@removed")', "@removed", "until reason", repeats=True),
    _audited(f'timeoutMember(workspaceId: "@workspace", userId: "@member", until: "{later(days=1)}") {{ nickname }}',
        "@member", "timedOutUntil", "timedOutUntil", refused_to="@other_member", repeats=True),
    _audited('recallMessages(conversationId: "@channel", messageIds: ["@posted"]) { id }', "@member",
        after="conversationId messageIds", repeats=True, has_transaction=False),
    _of_group('recallMessages(conversationId: "@group", messageIds: ["@message"]) { id }', "@member",
        after="conversationId messageIds", repeats=True, has_transaction=False),
    _audited('setContentRules(workspaceId: "@workspace", rules: [{words: ["x"], action: BLOCK}]) { id }', "@workspace",
        "rules", "rules", repeats=True),
    _audited('resolveReport(reportId: "@report", action: NONE) { id }', "@member", "state", "state action reportId",
        repeats=True),
    _of_group('updateGroup(groupId: "@group", input: {historyVisibility: FULL}) { id }', "@group", "historyVisibility",
        "historyVisibility", repeats=True),
    _of_group('removeMember(groupId: "@group", userId: "@member") { id }', "@member", "groupId role"),
    _of_group('setMemberRole(groupId: "@group", userId: "@member", role: ADMIN) { id }', "@member", "role groupId",
        "role groupId", repeats=True),
    _of_group('transferOwner(groupId: "@group", userId: "@member") { id }', "@member", "ownerId groupId",
        "ownerId groupId"),
    _of_group('dismissGroup(groupId: "@group")', "@group", "memberCount"),
    _of_group('deleteConversation(conversationId: "@group")', "@group", "memberCount"),
)  # fmt: skip

_OWN_PROFILE = "the caller's own profile, devices and settings"
_OWN_SESSION = "the caller's own sessions and what they follow"
_MESSAGES = "messages and files of the caller, and what SYSTEM messages announce to all members"
_PRESENCE = "the caller's own presence and voice state"
_GROUPS = "groups belong to their members, who see a SYSTEM message; only moderation and rights are in the log"

AUDITED_ELSEWHERE = {"eraseUser": "tests/erasure/test_erasing.py: its target is a pseudonym, which is made for it"}
"""Mutations with an entry that does not fit into the table, and the test that has them."""

NOT_AUDITED = {
    "report": "the report is itself kept, with its reporter; only moderators see it",
    "blockUser": _OWN_PROFILE,
    "unblockUser": _OWN_PROFILE,
    "exportMyData": _OWN_PROFILE,
    "upsertUsers": "profiles come from the identity provider, at any rate; the caller is always a service or an admin",
    "updateMe": _OWN_PROFILE,
    "registerDevice": _OWN_PROFILE,
    "removeDevice": _OWN_PROFILE,
    "testPush": _OWN_PROFILE,
    "renewAuth": _OWN_PROFILE,
    "setNotificationSettings": _OWN_PROFILE,
    "setNotificationLevel": _OWN_SESSION,
    "markRead": _OWN_SESSION,
    "markManyRead": _OWN_SESSION,
    "markChannelsRead": _OWN_SESSION,
    "ackDelivered": _OWN_SESSION,
    "ackManyDelivered": _OWN_SESSION,
    "deleteSession": _OWN_SESSION,
    "muteSession": _OWN_SESSION,
    "pinSession": _OWN_SESSION,
    "setUnread": _OWN_SESSION,
    "assignCategory": _OWN_SESSION,
    "followChannel": _OWN_SESSION,
    "followThread": _OWN_SESSION,
    "sendMessage": _MESSAGES,
    "editMessage": _MESSAGES,
    "suppressEmbeds": _MESSAGES,
    "pinMessage": _MESSAGES,
    "unpinMessage": _MESSAGES,
    "addReaction": _MESSAGES,
    "removeReaction": _MESSAGES,
    "createUpload": _MESSAGES,
    "completeUpload": _MESSAGES,
    "cancelUpload": _MESSAGES,
    "startTyping": _PRESENCE,
    "stopTyping": _PRESENCE,
    "setPresence": _PRESENCE,
    "setCustomStatus": _PRESENCE,
    "reportActivity": _PRESENCE,
    "joinVoice": _PRESENCE,
    "updateVoice": _PRESENCE,
    "leaveVoice": _PRESENCE,
    "createGroup": _GROUPS,
    "inviteMembers": _GROUPS,
    "leaveGroup": _GROUPS,
}
"""Mutations without an entry, and why. If a service performs one for a user, the log of the deployment has it."""
