"""Rows of conversations, messages and sessions in MongoDB, and their indexes. Times are ms since the epoch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

Row = dict[str, Any]

INDEXES = {
    "messages": [
        IndexModel([("conversationId", ASCENDING), ("seq", ASCENDING)], unique=True),
        IndexModel(
            [("senderId", ASCENDING), ("idempotencyKey", ASCENDING)],
            unique=True,
            partialFilterExpression={"idempotencyKey": {"$exists": True}},
        ),
    ],
    "sessions": [
        IndexModel([("conversationId", ASCENDING), ("userId", ASCENDING)], unique=True),
        IndexModel([("userId", ASCENDING), ("writeTs", DESCENDING), ("_id", DESCENDING)]),
        IndexModel([("userId", ASCENDING), ("activeTs", ASCENDING), ("_id", ASCENDING)]),
        # Covers the sum of a user's unread counts.
        IndexModel(
            [("userId", ASCENDING), ("unreadCount", ASCENDING)],
            partialFilterExpression={"unreadCount": {"$gt": 0}},
        ),
    ],
}  # fmt: skip


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def private_id(one: str, other: str) -> str:
    return "p_{}_{}".format(*sorted((one, other)))


def session_id(user: str, conversation: str) -> str:
    return f"s_{user}_{conversation}"


def private_row(one: str, other: str, at: int) -> Row:
    """Return a private conversation without messages."""
    return _conversation(private_id(one, other), "PRIVATE", [one, other], at)


def group_row(name: str, members: Sequence[str], at: int) -> Row:
    """Return a group without messages, owned by the first of its members."""
    return _conversation(f"g_{ObjectId()}", "GROUP", members, at) | {"name": name, "ownerId": members[0]}


def _conversation(name: str, kind: str, members: Sequence[str], at: int) -> Row:
    return {
        "_id": name,
        "type": kind,
        "memberIds": list(members),
        "memberCount": len(members),
        "seq": 0,
        "lastMessage": None,
        "createdAt": at,
    }


def message_row(conversation: str, sender: str, content: str, at: int) -> Row:
    """Return a message without its seq."""
    return {
        "_id": f"m_{ObjectId()}",
        "conversationId": conversation,
        "senderId": sender,
        "content": content,
        "contentType": "TEXT",
        "state": "NORMAL",
        "createdAt": at,
    }


def session_row(user: str, conversation: str, at: int) -> Row:
    """Return a session of a conversation without messages."""
    return {
        "_id": session_id(user, conversation),
        "userId": user,
        "conversationId": conversation,
        "writeSeq": 0,
        "readSeq": 0,
        "deliveredSeq": 0,
        "unreadCount": 0,
        "writeTs": at,
        "activeTs": at,
    }
