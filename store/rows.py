"""Names of MongoDB's collections, and the `_id`s that carry a meaning.

Where a row belongs to two things, its `_id` names both, the one it is looked up by first: the index on `_id` that every
collection has then serves for uniqueness, for finding one row, for listing all of one owner, and as the shard key.
A space separates the parts; no id of ours holds one, and `!` follows it in code order.
"""

from __future__ import annotations

from typing import Any

from store.ids import ConversationId, UserId

CONVERSATIONS = "conversations"
MEMBERS = "members"
MESSAGES = "messages"
SESSIONS = "sessions"
RECEIPTS = "receipts"
CLAIMS = "claims"


def _all_of(owner: str) -> dict[str, Any]:
    return {"_id": {"$gte": f"{owner} ", "$lt": f"{owner}!"}}


def member_row_id(conversation: ConversationId, user: UserId) -> str:
    """A membership."""
    return f"{conversation} {user}"


def members_of(conversation: ConversationId) -> dict[str, Any]:
    """The query for all memberships of a conversation."""
    return _all_of(conversation)


def session_row_id(user: UserId, conversation: ConversationId) -> str:
    """A user's session of a conversation."""
    return f"{user} {conversation}"


def sessions_of(user: UserId) -> dict[str, Any]:
    """The query for all sessions of a user."""
    return _all_of(user)


def receipt_row_id(conversation: ConversationId, user: UserId, kind: str, seq: int) -> str:
    """A mark: user acknowledged (kind R read, D delivered) everything up to seq. In order of seq for each user and kind."""
    return f"{conversation} {user} {kind}{seq:08x}"
