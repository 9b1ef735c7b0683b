"""People, sessions, groups and messages in bulk, written into MongoDB as the baseline writes them.

All functions take pymongo's (synchronous) Database and notify no connected client. The server makes the indexes
when it starts, or `make_indexes` does.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo.database import Database

from bench.baseline.rows import (
    INDEXES,
    Row,
    group_row,
    message_row,
    now_ms,
    private_row,
    session_row,
)

_BATCH = 10_000
_UNREAD_SHARE = 0.3
_APART_MS = 997


@dataclass(frozen=True, slots=True)
class Owner:
    """A user with many sessions, and their peers."""

    user: str
    peers: list[str]
    """Of the private conversations, in their order."""
    conversations: list[str] = field(default_factory=list)
    """Oldest first, private ones at the even places."""
    senders: list[str] = field(default_factory=list)
    """The sender of each conversation's message."""
    unread: list[str] = field(default_factory=list)


def make_indexes(database: Database[Row]) -> None:
    for collection, indexes in INDEXES.items():
        database[collection].create_indexes(indexes)


def insert_people(database: Database[Row], names: Iterable[str]) -> None:
    """Insert users with names. Other users need no row: they are named by their id."""
    _insert(database, {"users": [{"_id": name, "displayName": f"Person {name}"} for name in names]})


def insert_owner(database: Database[Row], user: str, sessions: int, *, groups_only: bool = False) -> Owner:
    """Insert a user with sessions, each with one message.

    Half are of private conversations and half of groups of three, or all of groups. Three of ten are unread. The
    conversations are like those of `bench.session_data.insert_owner`.
    """
    rng = random.Random(sessions)
    now = now_ms()
    owner = Owner(user, [f"u{number:06}" for number in range(max(3, sessions - sessions // 2))])
    rows: dict[str, list[Row]] = {"conversations": [], "messages": [], "sessions": []}
    for number in range(sessions):
        at = now - 60_000 - (sessions - number) * _APART_MS
        unread = rng.random() < _UNREAD_SHARE
        if groups_only or number % 2:
            members = [user, *rng.sample(owner.peers, 2)]
            conversation = group_row(f"Group {number}", members, at)
        else:
            members = [user, owner.peers[number // 2]]
            conversation = private_row(user, members[1], at)
        name = conversation["_id"]
        text = f"The newest message of {name}, a line of about the usual length."
        message = message_row(name, members[1], text, at) | {"seq": 1}
        readers = members if not unread else [members[1]]
        rows["conversations"].append(conversation | {"seq": 1, "lastMessage": message})
        rows["messages"].append(message)
        rows["sessions"] += [
            _with_message(session_row(member, name, at), message, member in readers) for member in members
        ]
        owner.conversations.append(name)
        owner.senders.append(members[1])
        if unread:
            owner.unread.append(name)
    _insert(database, rows)
    return owner


def insert_group(database: Database[Row], members: Sequence[str], *, name: str = "Everybody") -> str:
    """Insert a group without messages, owned by the first of its members. Return its id."""
    at = now_ms()
    group = group_row(name, members, at)
    _insert(
        database,
        {"conversations": [group], "sessions": [session_row(member, group["_id"], at) for member in members]},
    )
    return str(group["_id"])


def insert_private(database: Database[Row], one: str, other: str) -> str:
    """Insert a private conversation without messages. Return its id."""
    at = now_ms()
    made = private_row(one, other, at)
    _insert(
        database, {"conversations": [made], "sessions": [session_row(user, made["_id"], at) for user in (one, other)]}
    )
    return str(made["_id"])


def insert_messages(database: Database[Row], conversation: str, count: int) -> None:
    """Insert the first messages of a conversation. Its members take turns; everybody has read them."""
    made = database["conversations"].find_one({"_id": conversation})
    assert made is not None and made["seq"] == 0
    members, began = made["memberIds"], now_ms() - count * _APART_MS
    messages = [
        message_row(
            conversation,
            members[seq % len(members)],
            f"Message {seq} of those that were stored before, a line of about the usual size.",
            began + seq * _APART_MS,
        )
        | {"seq": seq}
        for seq in range(1, count + 1)
    ]
    _insert(database, {"messages": messages})
    database["conversations"].update_one({"_id": conversation}, {"$set": {"seq": count, "lastMessage": messages[-1]}})
    updated: Row = _with_message({}, messages[-1], read=True)
    database["sessions"].update_many({"conversationId": conversation}, {"$set": updated})


def _with_message(session: Row, message: Row, read: bool) -> Row:
    """Return a session after its last message."""
    seq, at = message["seq"], message["createdAt"]
    read_up_to = seq if read else 0
    seqs = {"writeSeq": seq, "readSeq": read_up_to, "deliveredSeq": read_up_to, "unreadCount": seq - read_up_to}
    return session | seqs | {"writeTs": at, "activeTs": at}


def _insert(database: Database[Any], rows: dict[str, list[Row]]) -> None:
    for collection, documents in rows.items():
        for start in range(0, len(documents), _BATCH):
            database[collection].insert_many(documents[start : start + _BATCH], ordered=False)
