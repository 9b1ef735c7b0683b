"""Who may what: one table over the whole schema. A field that is in none of its rows fails the test beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PARTS = ("anonymous", "outsider", "left", "removed", "member", "admin", "owner")
"""Whoever may ask about the group of a `tests.api.sample_group.SampleGroup`. The message that is asked about is the member's."""

OK, NULL = "ok", "null"
NOBODY, HIDDEN, GONE, NO = "UNAUTHENTICATED", "NOT_FOUND", "NOT_A_MEMBER", "FORBIDDEN"


def row(outsider: str, former: str, member: str, admin: str, owner: str) -> dict[str, str]:
    """How a field ends for every part. Nobody may anything without a token."""
    return dict(zip(PARTS, (NOBODY, outsider, former, former, member, admin, owner), strict=True))


SIGNED_IN = row(OK, OK, OK, OK, OK)
"""Everybody with a token; about oneself where it is about sessions and messages."""
WHOEVER_WAS_IN = row(NULL, OK, OK, OK, OK)
"""Who is, or was, a member; messages within their own intervals."""
WHILE_A_MEMBER = row(NULL, NULL, OK, OK, OK)
OWN_SESSION = row(HIDDEN, OK, OK, OK, OK)
"""Who has a session of it, also one that was left over; never anybody else's."""
MEMBERS = row(HIDDEN, GONE, OK, OK, OK)
ADMINS = row(HIDDEN, GONE, NO, OK, OK)
OWNER = row(HIDDEN, GONE, NO, NO, OK)


@dataclass(frozen=True, slots=True)
class Rule:
    """One root field with one kind of argument, and how it ends for whom. ends: it changes who is who, or leaves nothing to change."""

    field: str
    operation: str
    outcomes: dict[str, str]
    variables: dict[str, Any] = field(default_factory=dict)
    ends: bool = False


def query(name: str, call: str, outcomes: dict[str, str], **variables: Any) -> Rule:
    return Rule(f"Query.{name}", f"{_declared('query', variables)} {{ {call} }}", outcomes, variables)


def mutation(name: str, call: str, outcomes: dict[str, str], ends: bool = False, **variables: Any) -> Rule:
    return Rule(f"Mutation.{name}", f"{_declared('mutation', variables)} {{ {call} }}", outcomes, variables, ends)


def subscription(name: str, call: str, outcomes: dict[str, str], **variables: Any) -> Rule:
    return Rule(f"Subscription.{name}", f"{_declared('subscription', variables)} {{ {call} }}", outcomes, variables)


def _declared(kind: str, variables: dict[str, Any]) -> str:
    types = {name: "[ID!]!" if isinstance(value, list) else "ID!" for name, value in variables.items()}
    return f"{kind} ({', '.join(f'${name}: {type_}' for name, type_ in types.items())})" if variables else kind


_G = {"id": "@group"}

ROOT_FIELDS = [
    query("me", "me { id }", SIGNED_IN),
    query("user", "user(id: $id) { id displayName }", SIGNED_IN, id="@member"),
    query("sessions", "sessions { totalUnread }", SIGNED_IN),
    query("session", "session(conversationId: $id) { id }", WHOEVER_WAS_IN, **_G),
    query("syncSessions", "syncSessions { cursor }", SIGNED_IN),
    query("totalUnread", "totalUnread", SIGNED_IN),
    query("sessionCategories", "sessionCategories { categoryId }", SIGNED_IN),
    query("messages", "messages(conversationId: $id) { edges { node { id } } }", WHOEVER_WAS_IN, **_G),
    query("message", "message(id: $id) { content }", WHOEVER_WAS_IN, id="@message"),
    query("message", "message(id: $id) { content }", WHILE_A_MEMBER, id="@later"),
    query("offlineMessages", "offlineMessages { edges { node { id } } }", SIGNED_IN),
    query("conversation", "conversation(id: $id) { id title }", WHOEVER_WAS_IN, **_G),
    query("group", "group(id: $id) { name }", WHOEVER_WAS_IN, **_G),
    query("myGroups", "myGroups { edges { node { id } } }", SIGNED_IN),
    query("node", "node(id: $id) { id }", WHOEVER_WAS_IN, **_G),
    query("node", "node(id: $id) { id }", WHOEVER_WAS_IN, id="@message"),
    query("node", "node(id: $id) { id }", WHILE_A_MEMBER, id="@later"),
    query("node", "node(id: $id) { id }", row(NULL, NULL, NULL, NULL, OK), id="@owners_session"),
    query("node", "node(id: $id) { id }", SIGNED_IN, id="@member"),
    subscription("syncSession", "syncSession { cursor }", SIGNED_IN),
    subscription("messageEvents", "messageEvents { __typename }", SIGNED_IN),
    subscription("messageEvents", "messageEvents(conversationId: $id) { __typename }", OWN_SESSION, **_G),
    mutation("upsertUsers", 'upsertUsers(input: [{id: "made", displayName: "Made"}]) { id }', row(NO, NO, NO, NO, NO)),
    mutation("markRead", "markRead(conversationId: $id) { id }", OWN_SESSION, **_G),
    mutation("ackDelivered", "ackDelivered(conversationId: $id, upToSeq: 1) { id }", OWN_SESSION, **_G),
    mutation("muteSession", "muteSession(conversationId: $id, muted: true) { id }", OWN_SESSION, **_G),
    mutation("pinSession", "pinSession(conversationId: $id) { id }", OWN_SESSION, **_G),
    mutation("setUnread", "setUnread(conversationId: $id) { id }", OWN_SESSION, **_G),
    mutation("assignCategory", 'assignCategory(conversationIds: $ids, categoryId: "x") { id }', OWN_SESSION, ids=["@group"]),
    mutation("deleteSession", "deleteSession(conversationId: $id) { id }", OWN_SESSION, **_G),
    mutation("sendMessage", 'sendMessage(input: {conversationId: $id, content: "hi"}) { message { id } }', MEMBERS, **_G),
    mutation(
        "sendMessage",
        'sendMessage(input: {conversationId: $id, content: "hi", mentionAll: true}) { message { id } }',
        ADMINS,
        **_G,
    ),
    mutation("sendMessage", 'sendMessage(input: {toUserId: $id, content: "hi"}) { message { id } }', SIGNED_IN, id="@other_member"),
    mutation("startTyping", "startTyping(conversationId: $id)", MEMBERS, **_G),
    mutation("editMessage", 'editMessage(messageId: $id, content: "new") { id }', row(HIDDEN, GONE, OK, NO, NO), id="@message"),
    mutation("recallMessage", "recallMessage(messageId: $id) { id }", MEMBERS, id="@message"),
    mutation("createGroup", 'createGroup(input: {name: "Mine", memberIds: $ids}) { id }', SIGNED_IN, ids=["@other_member", "@other_admin"]),
    mutation("updateGroup", 'updateGroup(groupId: $id, input: {name: "New"}) { id }', ADMINS, **_G),
    mutation("inviteMembers", "inviteMembers(groupId: $id, userIds: $ids) { id }", MEMBERS, ids=["@outsider"], **_G),
    mutation("setMemberRole", "setMemberRole(groupId: $id, userId: $user, role: ADMIN) { id }", OWNER, user="@other_member", **_G),
    mutation("removeMember", "removeMember(groupId: $id, userId: $user) { id }", OWNER, user="@other_admin", **_G),
    mutation("removeMember", "removeMember(groupId: $id, userId: $user) { id }", ADMINS, True, user="@other_member", **_G),
    mutation("leaveGroup", "leaveGroup(groupId: $id)", row(HIDDEN, GONE, OK, OK, "OWNER_CANNOT_LEAVE"), True, **_G),
    mutation("transferOwner", "transferOwner(groupId: $id, userId: $user) { id }", OWNER, True, user="@other_member", **_G),
    mutation("dismissGroup", "dismissGroup(groupId: $id)", OWNER, True, **_G),
    mutation("deleteConversation", "deleteConversation(conversationId: $id)", OWNER, True, **_G),
    # On a WebSocket, for oneself: tests/server/test_token_renewal.py.
    mutation("renewAuth", 'renewAuth(token: "x")', row(*["INVALID_INPUT"] * 5)),
]  # fmt: skip

WITH_WHAT_HOLDS_IT = """
    PrivateConversation: id type title peer
    SubBizGateway: id type title subBiz
    Group: id type title name avatarUrl memberCount historyVisibility status createdAt owner
    GroupConnection: edges pageInfo
    GroupEdge: node cursor
    GroupMemberConnection: edges pageInfo
    GroupMemberEdge: node cursor
    GroupMember: role joinedAt user
    SeqRange: fromSeq toSeq
    Message: id conversationId seq contentType content state mentionsAll editCount editedAt recalledAt createdAt sender mentions
    MessageConnection: edges pageInfo
    MessageEdge: node cursor
    MessageCreated: message cursor
    MessageUpdated: message cursor
    MessageRecalled: message cursor
    Delivery: status recipientCount deliveredCount readCount
    Receipt: status deliveredAt readAt user
    ReceiptConnection: edges pageInfo
    ReceiptEdge: node cursor
    ReceiptAdvanced: conversationId status seq cursor user
    TypingStarted: conversationId at user
    CaughtUp: cursor reset
    User: id displayName avatarUrl isBot
    SendMessagePayload: message replayed
    PageInfo: hasNextPage hasPreviousPage startCursor endCursor
"""
"""Whoever is shown the object may see these: all of them say the same to everybody who may. What of messages is withheld (recalled) is gone for all."""

THE_VIEWERS_OWN = """
    PrivateConversation: lastMessage session
    SubBizGateway: lastMessage session
    Group: lastMessage session visibleRanges
    Message: replyTo
    SendMessagePayload: session
    Session: id writeSeq readSeq deliveredSeq unreadCount unreadMentionCount unreadStatus muteStatus mutedUntil priority categoryId subBiz
    Session: status activeTs writeTs peerDeliveredSeq peerReadSeq conversation lastMessage
    SessionConnection: edges pageInfo totalUnread cursor
    SessionEdge: node cursor
    SessionDelta: sessions cursor hasMore totalUnread reset
    SessionCategory: categoryId sessionCount unreadCount writeTs lastMessage
    SyncSession: reason hasMore sessions totalUnread cursor reset
"""
"""What it is to who looks: their own session and numbers, messages within their own intervals. Nobody can name another's."""

THE_SENDERS = """
    Message: idempotencyKey delivery receipts
"""
"""Null to all but who wrote the message."""

MEMBERS_NOW = """
    Group: members viewerRole
"""
"""Null to those no longer in it."""


def fields_of(rules: str) -> set[str]:
    """`Type.field` for all that a rule names."""
    lines = [line.strip().partition(": ") for line in rules.strip().splitlines()]
    return {f"{name}.{field}" for name, _, fields in lines for field in fields.split()}
