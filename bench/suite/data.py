"""The data that exists before a measurement, written into each server's database in its own form."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import orjson
from pymongo import MongoClient
from pymongo.database import Database
from redis import Redis

from bench import session_data
from bench.baseline import seed
from bench.session_data import Row
from bench.suite.floor_work import DATABASE as FLOOR_DATABASE
from bench.suite.stage import BASELINE, CONFAB, FLOOR, NODE, Stage, database_of
from store.base.ids import ConversationId, MessageId, UserId, private_id
from store.base.snowflakes import first_id_at
from store.messages.message import Message, MessageKind
from store.mongo.collections import CONVERSATIONS, MESSAGES, SESSIONS, session_row_id

_APART_MS = 997


def insert_people(stage: Stage, names: Sequence[str]) -> None:
    """Insert the people of a scenario."""
    for contestant in stage.names:
        insert_people_of(stage, contestant, database_of(contestant), names)


def insert_people_of(stage: Stage, contestant: str, database: str, names: Sequence[str]) -> None:
    """Insert them in one server's form. The floor stores no people."""
    insert = {CONFAB: session_data.insert_people, BASELINE: seed.insert_people, NODE: seed.insert_people}.get(
        contestant
    )
    if insert is not None:
        with MongoClient[Row](stage.databases.mongo_url) as mongo:
            insert(mongo[database], list(names))


def insert_owners(stage: Stage, names: Sequence[str], sessions: int) -> dict[str, list[list[tuple[str, str]]]]:
    """Insert users with a number of groups of three.

    Return, by server and user, each group's id and one of its members.
    """
    found: dict[str, list[list[tuple[str, str]]]] = {}
    with MongoClient[Row](stage.databases.mongo_url) as mongo:
        inserts = {CONFAB: session_data.insert_owner, BASELINE: seed.insert_owner, NODE: seed.insert_owner}
        for contestant, insert in inserts.items():
            if contestant in stage.names:
                database = mongo[database_of(contestant)]
                owners = [insert(database, name, sessions, groups_only=True) for name in names]
                found[contestant] = [list(zip(one.conversations, one.senders, strict=True)) for one in owners]
    if FLOOR in stage.names:
        with Redis.from_url(stage.databases.redis_url) as redis:
            for name in names:
                _give_floor_sessions(redis, name, sessions)
    return found


def _give_floor_sessions(redis: Any, user: str, sessions: int) -> None:
    names = [f"p_{user}_u{number:06}" for number in range(sessions)]
    for start in range(0, sessions, 1_000):
        part = names[start : start + 1_000]
        redis.zadd(f"floor:list:{user}", {name: start + place for place, name in enumerate(part)})
        redis.hset(
            f"floor:sessions:{user}",
            mapping={name: orjson.dumps(_floor_session(user, name, place)) for place, name in enumerate(part)},
        )


def _floor_session(user: str, conversation: str, number: int) -> Row:
    """Return a session with the size of the other servers' answers."""
    peer, at = f"u{number:06}", 1_700_000_000_000 + number
    last = _floor_message(conversation, number, peer)
    return {
        "id": f"s_{user}_{conversation}", "writeSeq": 1, "readSeq": 0, "deliveredSeq": 0, "unreadCount": 1,
        "muteStatus": False, "priority": 0, "status": "ACTIVE",
        "activeTs": at, "writeTs": at,
        "conversation": {"id": conversation, "type": "PRIVATE", "title": f"Person {peer}"},
        "lastMessage": last,
    }  # fmt: skip


def _floor_message(conversation: str, seq: int, sender: str) -> Row:
    return {
        "id": f"m_{1_000_000_000_000_000_000 + seq}",
        "conversationId": conversation,
        "seq": seq,
        "contentType": "TEXT",
        "content": f"The newest message of {conversation}, a line of about the usual length.",
        "state": "NORMAL",
        "createdAt": "2026-01-02T03:04:05.678Z",
        "sender": {"id": sender, "displayName": f"Person {sender}", "avatarUrl": None},
    }


def insert_talks(stage: Stage, pairs: Sequence[tuple[str, str]], messages: int) -> None:
    """Insert private conversations in which the first of each pair has sent messages, and the second has read none."""
    for contestant in stage:
        if contestant.ejabberd is not None:
            contestant.ejabberd.insert_talks(pairs, messages)
    with MongoClient[Row](stage.databases.mongo_url) as mongo:
        for one, other in pairs:
            if CONFAB in stage.names:
                _insert_talk(mongo[database_of(CONFAB)], UserId(one), UserId(other), messages)
            for contestant in {BASELINE, NODE}.intersection(stage.names):
                database: Database[Row] = mongo[database_of(contestant)]
                conversation = seed.insert_private(database, one, other)
                seed.insert_messages(database, conversation, messages)
                unread = {"readSeq": 0, "deliveredSeq": 0, "unreadCount": messages}
                database["sessions"].update_one({"_id": f"s_{other}_{conversation}"}, {"$set": unread})
            if FLOOR in stage.names:
                talk = str(private_id(UserId(one), UserId(other)))
                now = time.time_ns()
                mongo[FLOOR_DATABASE]["messages"].insert_many(
                    {"_id": now + seq, "c": talk, "b": 0, "s": seq, "node": _floor_message(talk, seq, one)}
                    for seq in range(1, messages + 1)
                )


def _insert_talk(database: Database[Row], one: UserId, other: UserId, messages: int) -> None:
    talk: ConversationId = private_id(one, other)
    rng, now = random.Random(str(talk)), time.time_ns() // 1_000_000
    rows = []
    at = now
    for seq in range(1, messages + 1):
        at = now - 60_000 - (messages - seq) * _APART_MS
        name = MessageId(first_id_at(at) | rng.randrange(1 << 17))
        text = f"The newest message of {talk}, a line of about the usual length."
        rows.append(Message(name, talk, one, MessageKind.TEXT, text, seq=seq, n=seq).to_document())
    database[MESSAGES].insert_many(rows, ordered=False)
    database[CONVERSATIONS].insert_one({"_id": talk, "k": "P", "s": messages, "n": messages, "at": at, "w": at})
    database[SESSIONS].insert_many(
        {"_id": session_row_id(user, talk), "r": read, "rn": read, "d": read, "a": at, "w": at}
        for user, read in ((one, messages), (other, 0))
    )


def forget(stage: Stage, users: Sequence[str], conversations: Sequence[str] = ()) -> None:
    """Delete everything that Confab has in Redis about users and conversations."""
    with Redis.from_url(stage.databases.redis_url) as redis:
        prefix = f"{database_of(CONFAB)}:"
        patterns = [f"{prefix}*{{u:{user}}}:*" for user in users]
        patterns += [f"{prefix}*{{p:*}}:*:{conversation}" for conversation in conversations]
        for pattern in patterns:
            if keys := list(redis.scan_iter(match=pattern, count=10_000)):
                redis.delete(*keys)
