"""Names of MongoDB's collections, `_id`s that consist of several parts, and queries for them.

If a row belongs to two things, its `_id` contains the ids of both, the one it is looked up by first. The index on `_id`
that every collection has then guarantees uniqueness, finds one row, lists all rows of one owner, and is the shard key.
A space separates the parts: no id contains one, and `!` is the next character in code order. In the `_id` of the
session of a thread it is a tab: versions without threads list the rows from the space to `!`, and so leave it out.
"""

from __future__ import annotations

from typing import Any

from store.base.ids import ConversationId, MessageId, UserId, bucket_of
from store.base.workspace_ids import WorkspaceId

USERS = "users"
CONVERSATIONS = "conversations"
MEMBERS = "members"
MESSAGES = "messages"
SESSIONS = "sessions"
RECEIPTS = "receipts"
HELD_RECEIPTS = "held_receipts"
"""Receipts of INVISIBLE users, which their senders do not know yet."""
CLAIMS = "claims"
REVOCATIONS = "revocations"
REACTIONS = "reactions"
ORIGINS = "origins"
WORKSPACES = "workspaces"
CHANNELS = "channels"
WORKSPACE_MEMBERS = "workspace_members"
WORKSPACES_OF = "workspaces_of"
"""The workspaces of each user: what `workspace_members` has by workspace."""
INVITES = "invites"
REMOVALS = "removals"
"""Deleted channels whose messages and other rows have to be removed."""
BLOB_FILES = "blobs.files"
"""Whole blobs. The names of both collections and of their fields are those of GridFS."""
BLOB_CHUNKS = "blobs.chunks"
"""Bytes of blobs."""
FILES = "files"
SEARCH = "search"
"""Rows of the index of messages (ADR 85)."""
PREVIEWS = "previews"
"""The cache of link previews."""
DEVICES = "devices"
PUSH_TOKENS = "push_tokens"
"""The device that has each push token."""
NOTIFICATION_SETTINGS = "notification_settings"
"""Notification settings of users, for all their devices."""
PRESENCES = "presences"
"""Settings and custom statuses of users, and when they were last there (ADR 80)."""
WEBHOOKS = "webhooks"
WEBHOOK_COUNTS = "webhook_counts"
"""Numbers of webhooks of channels, workspaces and the deployment."""
WEBHOOK_EVENTS = "webhook_events"
"""The log of outgoing webhooks: a row per webhook and event, for 30 days (ADR 90)."""
WEBHOOK_LOG = "webhook_log"
"""One row: the lease of the process that writes the log, and its position."""
WEBHOOK_LINES = "webhook_lines"
"""Queues of pending events: a row per webhook and conversation."""
CONTENT_RULES = "content_rules"
"""The content rules of workspaces (ADR 98)."""
BLOCKS = "blocks"
"""Users who have blocked others (ADR 95)."""
AUDIT = "audit"
"""The audit log (ADR 92)."""
BANS = "bans"
"""Bans from workspaces and from the deployment (ADR 96)."""
EXPIRED = "expired"
"""Conversations with expired messages that have to be removed, and a lease (ADR 99)."""
JOBS = "jobs"
"""Work in the background: exports, erasures, recalls of what a banned user wrote (ADR 93)."""
REPORTS = "reports"
"""Reports about messages, users and files (ADR 97)."""
DEPLOYMENT = "deployment"
"""One row: state of the deployment as a whole."""


BLOCKED_USER = "b.u"
"""Field of the index of `blocks` for the users who have blocked a user."""

BLOCK_PENDING_SINCE = "pa"
"""Field of the index of `blocks` for changes that are not complete."""


ONLY_JOB = (("o", 1),)
"""Fields of the unique index of jobs of which a user has one at a time."""


def at_place(conversation: ConversationId, seq: int) -> dict[str, Any]:
    """Return the query for the message at a seq."""
    return {"c": conversation, "b": bucket_of(seq), "s": seq}


def between_places(conversation: ConversationId, first: int, last: int) -> dict[str, Any]:
    """Return the query for the messages from one seq to another, both included."""
    return {
        "c": conversation,
        "b": {"$gte": bucket_of(first), "$lte": bucket_of(last)},
        "s": {"$gte": first, "$lte": last},
    }


def _all_of(owner: str) -> dict[str, Any]:
    return {"_id": {"$gte": f"{owner} ", "$lt": f"{owner}!"}}


def member_row_id(conversation: ConversationId, user: UserId) -> str:
    """Return the `_id` of a membership."""
    return f"{conversation} {user}"


def members_of(conversation: ConversationId) -> dict[str, Any]:
    """Return the query for all memberships of a conversation."""
    return _all_of(conversation)


def workspace_row_id(workspace: WorkspaceId, inside: str) -> str:
    """Return the `_id` of a member (user) or channel (id) of a workspace."""
    return f"{workspace} {inside}"


def rows_of_workspace(workspace: WorkspaceId) -> dict[str, Any]:
    """Return the query for all members, or all channels, of a workspace."""
    return _all_of(workspace)


def audit_row_id(workspace: WorkspaceId | None, entry: int) -> str:
    """Return the `_id` of an entry of the audit log. workspace: None: the deployment. entry: a snowflake."""
    return f"{workspace or '-'} {entry:019d}"


def ban_row_id(workspace: WorkspaceId | None, user: UserId) -> str:
    """Return the `_id` of a ban. workspace: None: the deployment."""
    return f"{workspace or '-'} {user}"


def bans_from(workspace: WorkspaceId | None, after: UserId | None) -> dict[str, Any]:
    """Return the query for the bans from a workspace, or from the deployment, after a user; None: all."""
    owner = workspace or "-"
    return {"_id": {"$gt": f"{owner} {after or ''}", "$lt": f"{owner}!"}}


def workspace_of_user_row_id(user: UserId, workspace: WorkspaceId) -> str:
    """Return the `_id` of a row in WORKSPACES_OF."""
    return f"{user} {workspace}"


def workspaces_of_user(user: UserId) -> dict[str, Any]:
    """Return the query for the workspaces of a user."""
    return _all_of(user)


def device_row_id(user: UserId, device: str) -> str:
    """Return the `_id` of a device. The id of a device may contain spaces."""
    return f"{user} {device}"


def devices_of_user(user: UserId) -> dict[str, Any]:
    """Return the query for all devices of a user."""
    return _all_of(user)


def session_row_id(user: UserId, conversation: ConversationId) -> str:
    """Return the `_id` of a session row."""
    return f"{user}\t{conversation}" if conversation.startswith("t_") else f"{user} {conversation}"


def parse_session_row_id(row: str) -> tuple[UserId, ConversationId]:
    """Return the user and the conversation of a session row."""
    user, conversation = row.split(maxsplit=1)
    return UserId(user), ConversationId(conversation)


def sessions_without_channels(user: UserId, after: str = "") -> dict[str, Any]:
    """Return the query for the sessions of a user that are not those of channels, after a row, by `_id`; "": all.

    Threads come first.
    """
    first_channel, channels_end = (session_row_id(user, ConversationId(prefix)) for prefix in ("c_", "c`"))
    start, end = after or f"{user}\t", f"{user}!"
    if start >= channels_end:
        return {"_id": {"$gt": start, "$lt": end}}
    before, behind = {"$gt": start, "$lt": first_channel}, {"$gte": channels_end, "$lt": end}
    return {"$or": [{"_id": before}, {"_id": behind}]}


def thread_sessions_of(user: UserId) -> dict[str, Any]:
    """Return the query for the sessions of a user in threads."""
    first, end = (session_row_id(user, ConversationId(prefix)) for prefix in ("t_", "t_~"))
    return {"_id": {"$gte": first, "$lt": end}}


def conversation_sessions_of(user: UserId, after: ConversationId | None = None) -> dict[str, Any]:
    """Return the query for all sessions of a user but gateways, after a conversation, by `_id`; None: all.

    Threads come first.
    """
    gateways, gateways_end = (session_row_id(user, ConversationId(prefix)) for prefix in ("b_", "b`"))
    start, end = f"{user}\t" if after is None else session_row_id(user, after), f"{user}!"
    if start >= gateways_end:
        return {"_id": {"$gt": start, "$lt": end}}
    return {"$or": [{"_id": {"$gt": start, "$lt": gateways}}, {"_id": {"$gte": gateways_end, "$lt": end}}]}


def channel_sessions_of(user: UserId, after: str = "") -> dict[str, Any]:
    """Return the query for the sessions of a user in channels after a channel, in the order of ids; "": all."""
    first, end = (session_row_id(user, ConversationId(prefix)) for prefix in (after or "c_", "c`"))
    return {"_id": {"$gt": first, "$lt": end}}


def timed_channel_mutes_of(user: UserId, now_ms: int) -> dict[str, Any]:
    """Return the query for the sessions of a user in channels with a mute that ends after a time. See BY_MUTE_END."""
    return channel_sessions_of(user) | {"mu": {"$gt": now_ms}}


def private_sessions_of(user: UserId) -> dict[str, Any]:
    """Return the query for the sessions of a user in private conversations."""
    first, end = (session_row_id(user, ConversationId(prefix)) for prefix in ("p_", "p`"))
    return {"_id": {"$gte": first, "$lt": end}}


def group_sessions_of(user: UserId) -> dict[str, Any]:
    """Return the query for the sessions of a user in groups."""
    first, end = (session_row_id(user, ConversationId(prefix)) for prefix in ("g_", "g`"))
    return {"_id": {"$gte": first, "$lt": end}}


def receipt_row_id(conversation: ConversationId, user: UserId, kind: str, seq: int) -> str:
    """Return the `_id` of a receipt: the user has read (kind R) or received (kind D) everything up to seq.

    The `_id`s of one user and kind are in the order of seq.
    """
    return member_row_id(conversation, user) + receipt_row_end(kind, seq)


def receipt_row_end(kind: str, seq: int) -> str:
    """Return the part of a receipt's `_id` that follows the `_id` of the membership."""
    return f" {kind}{seq:08x}"


def marks_between(conversation: ConversationId, user: UserId, kind: str, first: int, last: int) -> dict[str, Any]:
    """Return the query for a user's receipts of a kind from one seq to another, both included."""
    ends = (receipt_row_id(conversation, user, kind, seq) for seq in (first, last))
    return {"_id": dict(zip(("$gte", "$lte"), ends, strict=True))}


def held_receipt_row_id(user: UserId, conversation: ConversationId) -> str:
    """Return the `_id` of a held receipt."""
    return f"{user} {conversation}"


def held_receipts_of(user: UserId) -> dict[str, Any]:
    """Return the query for the held receipts of a user."""
    return _all_of(user)


def parse_held_receipt_row_id(row: str) -> tuple[UserId, ConversationId]:
    """Return the user and the conversation of a held receipt."""
    user, _, conversation = row.partition(" ")
    return UserId(user), ConversationId(conversation)


def reaction_row_id(conversation: ConversationId, message: MessageId, emoji: str, user: UserId) -> str:
    """Return the `_id` of a reaction."""
    return f"{conversation} {message} {emoji} {user}"


def reactions_of(conversation: ConversationId, *inside: MessageId | str) -> dict[str, Any]:
    """Return the query for the reactions in a conversation, to a message (id) there, or with an emoji to it."""
    return _all_of(" ".join([conversation, *map(str, inside)]))


def seq_of_receipt(row: str) -> int:
    """Return the seq of a receipt by its `_id`."""
    return int(row[-8:], 16)
