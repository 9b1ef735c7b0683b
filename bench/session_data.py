"""Conversations and sessions in bulk, written as the store writes them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pymongo import MongoClient
from pymongo.database import Database

from store.base.ids import ConversationId, MessageId, UserId, group_id, private_id
from store.base.snowflakes import first_id_at
from store.messages.message import Message, MessageKind
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS, member_row_id, session_row_id
from store.users.search_text import search_fields

Row = dict[str, Any]

_BATCH = 10_000
_UNREAD_SHARE = 0.3
_APART_MS = 997


@dataclass(frozen=True, slots=True)
class Owner:
    """A user with many sessions: their id and their peers."""

    user: str
    peers: list[str]
    """The peers of the private conversations, in order."""
    conversations: list[str]
    senders: list[str]
    """The sender of each conversation's message."""
    unread: list[str]


def peer_name(number: int) -> str:
    """Return a user id as in large deployments."""
    return f"u{number:06}"


def insert_owner(database: Database[Row], user: str, sessions: int, *, groups_only: bool = False) -> Owner:
    """Insert a user with sessions, each with one message.

    Half are of private conversations and half of groups of three, or all of groups.
    """
    rng = random.Random(sessions)
    now = time.time_ns() // 1_000_000
    peers = [peer_name(number) for number in range(max(3, sessions - sessions // 2))]
    owner = Owner(user, peers, [], [], [])
    rows: dict[str, list[Row]] = {name: [] for name in (CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS)}
    for number in range(sessions):
        at = now - 60_000 - (sessions - number) * _APART_MS
        snowflake = first_id_at(at) | rng.randrange(1 << 17)
        unread = rng.random() < _UNREAD_SHARE
        if groups_only or number % 2:
            people = [user, *rng.sample(peers, 2)]
            conversation = group_id(snowflake - (1 << 30))
            _add_group(rows, conversation, people, at)
        else:
            people = [user, peers[number // 2]]
            conversation = private_id(UserId(user), UserId(people[1]))
            rows[CONVERSATIONS].append({"_id": conversation, "k": "P", "s": 1, "n": 1, "at": at, "w": at})
        _add_message(rows, conversation, snowflake, people, at, unread)
        owner.conversations.append(conversation)
        owner.senders.append(people[1])
        if unread:
            owner.unread.append(conversation)
        if len(rows[CONVERSATIONS]) >= _BATCH:
            _flush(database, rows)
    _flush(database, rows)
    return owner


def _add_group(rows: dict[str, list[Row]], conversation: ConversationId, people: list[str], at: int) -> None:
    rows[CONVERSATIONS].append(
        {
            "_id": conversation, "k": "G", "s": 1, "n": 1, "at": at, "w": at, "name": f"Group {conversation[-5:]}",
            "own": people[0], "by": people[0], "ct": at, "mc": len(people),
        }
    )  # fmt: skip
    for person in people:
        role = "OWNER" if person == people[0] else "MEMBER"
        row = {"_id": member_row_id(conversation, UserId(person)), "r": role, "i": [[1, -1]], "j": at, "v": 0}
        rows[MEMBERS].append(row)


def _add_message(
    rows: dict[str, list[Row]], conversation: ConversationId, snowflake: int, people: list[str], at: int, unread: bool
) -> None:
    sender = UserId(people[1])
    text = f"The newest message of {conversation}, a line of about the usual length."
    message = Message(MessageId(snowflake), conversation, sender, MessageKind.TEXT, text, seq=1, n=1)
    rows[MESSAGES].append(message.to_document())
    for person in people:
        read = int(person == sender or not unread)
        row = {"_id": session_row_id(UserId(person), conversation), "r": read, "rn": read, "d": read, "a": at, "w": at}
        rows[SESSIONS].append(row)


def _flush(database: Database[Row], rows: dict[str, list[Row]]) -> None:
    for collection, documents in rows.items():
        if documents:
            database[collection].insert_many(documents, ordered=False)
            documents.clear()


def insert_people(database: Database[Row], names: list[str]) -> None:
    """Insert users with display names."""
    people = [
        {"_id": name, "n": f"Person {name}", "av": None, "bot": False}
        # Without these, servers would add them in the background.
        | search_fields(f"Person {name}", name, has_directory=False)
        for name in names
    ]
    for start in range(0, len(people), _BATCH):
        database["users"].insert_many(people[start : start + _BATCH], ordered=False)


def multiply(samples: list[tuple[int, Row]], documents: int, seed: int = 1) -> Iterator[Row]:
    """Yield session rows like those of the product, each sample as often as its weight says.

    In the order in which sessions are created: those of all users mixed.
    """
    rng = random.Random(seed)
    users = max(2, documents // 50)
    now = time.time_ns() // 1_000_000
    rows = [row for _, row in samples]
    weights = [weight for weight, _ in samples]
    made: set[str] = set()
    while len(made) < documents:
        sample = rng.choices(rows, weights)[0]
        user = UserId(f"u{100_000 + rng.randrange(users)}")
        at = now - rng.randrange(365 * 24 * 3_600_000)
        if sample["_id"].partition(" ")[2].startswith("p_"):
            conversation = private_id(user, UserId(f"u{100_000 + rng.randrange(users)}"))
        else:
            conversation = group_id(first_id_at(at) | rng.randrange(1 << 17))
        name = session_row_id(user, conversation)
        if name in made or conversation.endswith(f"{user}_{user}"):
            continue
        made.add(name)
        read = rng.randrange(1, 5_000)
        varied = {"r": read, "rn": read - rng.randrange(0, 5), "d": read, "a": at, "w": at, "f": rng.randrange(1, 500)}
        yield {field: varied[field] if field in varied and value else value for field, value in sample.items()} | {
            "_id": name
        }


def insert_rows(url: str, database: str, rows: Iterator[Row]) -> None:
    """Insert all rows into `sessions`."""
    with MongoClient[Row](url) as mongo:
        while batch := list(islice(rows, _BATCH)):
            mongo[database][SESSIONS].insert_many(batch, ordered=False)
