"""Names of MongoDB's collections, and the `_id`s that carry a meaning.

Where a row belongs to two things, its `_id` names both, the one it is looked up by first: the index on `_id` that every
collection has then serves for uniqueness, for finding one row, for listing all of one owner, and as the shard key.
A space separates the parts; no id of ours holds one, and `!` follows it in code order.
"""

from __future__ import annotations

from typing import Any

from store.base.ids import ConversationId, UserId, bucket_of

CONVERSATIONS = "conversations"
MEMBERS = "members"
MESSAGES = "messages"
SESSIONS = "sessions"
RECEIPTS = "receipts"
CLAIMS = "claims"
REVOCATIONS = "revocations"
ORIGINS = "origins"

PLACE = (("c", 1), ("b", 1), ("s", 1))
"""The index of `messages` by place."""

BY_ID = (("_id", 1),)
"""The index that every collection has."""


def at_place(conversation: ConversationId, seq: int) -> dict[str, Any]:
    """The query for the message at a seq."""
    return {"c": conversation, "b": bucket_of(seq), "s": seq}


def between_places(conversation: ConversationId, first: int, last: int) -> dict[str, Any]:
    """The query for messages from one seq to another, ends included."""
    return {
        "c": conversation,
        "b": {"$gte": bucket_of(first), "$lte": bucket_of(last)},
        "s": {"$gte": first, "$lte": last},
    }


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
    return member_row_id(conversation, user) + receipt_row_end(kind, seq)


def receipt_row_end(kind: str, seq: int) -> str:
    """What a mark's `_id` has behind that of its user's membership."""
    return f" {kind}{seq:08x}"


def marks_between(conversation: ConversationId, user: UserId, kind: str, first: int, last: int) -> dict[str, Any]:
    """The query for a user's marks of a kind from one seq to another, ends included."""
    ends = (receipt_row_id(conversation, user, kind, seq) for seq in (first, last))
    return {"_id": dict(zip(("$gte", "$lte"), ends, strict=True))}


def seq_of_receipt(row: str) -> int:
    """The seq of a mark by its `_id`."""
    return int(row[-8:], 16)
