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
DEPLOYMENT = "deployment"
"""One row: state of the deployment as a whole."""

PLACE = (("c", 1), ("b", 1), ("s", 1))
"""Fields of the unique index of `messages`: conversation, bucket, seq."""

BY_CHUNK = (("files_id", 1), ("n", 1))
"""Fields of the unique index of chunks of blobs: blob, position."""

BY_ID = (("_id", 1),)
"""Fields of the index that every collection has."""

BY_SEARCH_KEY = (("k", 1), ("s", 1))
"""Fields of the index of `users` for the directory."""

PENDING_SINCE = "pn.a"
"""Field of the index of `workspaces` for changes of rights that are not complete."""

LINKS_DUE = "em.p"
"""Field of the index of `messages` for messages whose links are pending."""

BY_LINKS_DUE = ((LINKS_DUE, 1),)
"""That index: the longest due first."""

PIN_NOTED_AT = "pa.a"
"""Field of the index of `conversations` for changes of pins that are not announced."""

# Short names of fields of workspaces and their members: `WorkspaceField`, `WorkspaceMemberField`.
BY_OPEN_SIZE = (("mc", -1), ("_id", 1))
"""Fields of the index of open workspaces, largest first."""

BY_OPEN_SIZE_AND_KEY = (("k", 1), ("mc", -1), ("_id", 1))
"""Fields of the index of open workspaces by beginnings of their names."""

BY_PARENT = (("tp", 1), ("w", -1), ("_id", -1))
"""Fields of the index of the threads of each conversation, latest reply first."""

BY_CHANNEL = (("ch", 1),)
"""Fields of the index of the sessions in each channel. Its name in `store/sessions/fields.py`: CHANNEL."""

BY_MUTE_END = (("_id", 1), ("mu", 1))
"""Fields of the index of sessions whose mute ends by itself. In `store/sessions/fields.py`: muted_until_ms."""

# Short names of fields of reactions: `ReactionField`.
BY_REACTION_ORDER = (("m", 1), ("e", 1), ("o", 1))
"""Fields of the index of the reactions to each message with each emoji, in order."""

HELD_UNTIL = "l"
"""Field of the index of `held_receipts`: when a server looks whether the user is visible again (ms)."""

BY_PUSHED_USER = (("us", 1),)
"""Fields of the index of the devices of users that take pushes. In `store/devices/device_fields.py`: PUSHED_USER."""

BY_HELD_UNTIL = ((HELD_UNTIL, 1),)
"""That index: the longest due first."""

BY_DELETION = (("del", 1),)
"""Fields of the index of workspaces that were deleted and are being removed."""

# Short names of fields of files: `FileField`.
BY_REMOVAL = (("rm", 1),)
"""Fields of the index of files whose bytes may be removed from a time on."""

BY_OWNER_AND_REMOVAL = (("o", 1), ("rm", 1))
"""Fields of the index of the files of each user that no message has."""

BY_TIDYING = (("ta", 1),)
"""Fields of the index of files with superfluous blobs."""

BY_SCANNING = (("st", 1), ("_id", 1))
"""Fields of the index of files for which the scanner has not answered."""

# Short names of fields of rows of the index of messages: `IndexField`.
BY_TERM = (("c", 1), ("t", 1), ("l", 1))
"""Fields of the index of `search` for terms and their beginnings."""

BY_NEWEST = (("c", 1), ("l", 1))
"""Fields of the index of the newest rows of `search`. Also its shard key."""

# Short names of fields of webhooks: `WebhookField`.
BY_WEBHOOK_OWNER = (("o", 1),)
"""Fields of the index of `webhooks` for those of a channel."""

BY_WEBHOOK_WORKSPACE = (("w", 1),)
"""Fields of the index of `webhooks` for those of a workspace."""

# Short names of fields of events of webhooks and of lines: `EventField`, `LineField`.
BY_LINE = (("l", 1), ("o", 1))
"""Fields of the index of `webhook_events` for the pending events of each line."""

BY_DELIVERY = (("w", 1), ("o", 1))
"""Fields of the index of `webhook_events` for the deliveries of each webhook."""

BY_PENDING_TIME = (("w", 1), ("at", 1))
"""Fields of the index of `webhook_events` for the pending events of each webhook by time."""

BY_LINE_DUE = (("w", 1), ("d", 1))
"""Fields of the index of `webhook_lines`: the longest due of each webhook first."""

BY_MEMBER_NAME = (("w", 1), ("sn", 1))
"""Fields of the index of the members of a workspace in order of names."""

BY_MEMBER_KEY = (("w", 1), ("k", 1), ("sn", 1))
"""Fields of the index of members by beginnings of their names."""

BY_MEMBER_ROLE = (("w", 1), ("r", 1), ("sn", 1))
"""Fields of the index of members with a role."""

BY_NICKNAMED_USER = (("w", 1), ("us", 1))
"""Fields of the index of members with a nickname in order of their own names."""


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
