"""A user with a long channel and many conversations, written to MongoDB as the store writes them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pymongo.database import Database

from bench.search.texts import Language, Texts
from bench.session_data import Row, insert_owner, peer_name
from bench.workspace_data import follow_session_row, follower_row, insert_rows, insert_workspace
from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import first_id_at
from store.conversations.conversation_fields import ConversationField
from store.messages.message import Message, MessageKind
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS, session_row_id

_CHANNELS = 20
_WRITERS = 60
_APART_MS = 40_000
_LONG_SHARE = 0.04
"""Share of messages with several paragraphs, so that heights differ as in real chats."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The user whose demo is measured."""

    user: str
    channel: ConversationId
    """A channel that the user follows and has read."""
    newest_conversation: str
    """First in the user's list."""


def insert_reader(database: Database[Row], texts: Texts, *, messages: int, sessions: int) -> Reader:
    """Insert a workspace, a channel with messages, and a user with sessions, who follows the channel."""
    now = time.time_ns() // 1_000_000
    people = max(_WRITERS, sessions) + 1
    made = insert_workspace(database, members=people, channels=_CHANNELS, followers_of_small=0, history=0)
    user, channel = peer_name(people - 1), made.small
    insert_rows(database, MESSAGES, _messages(channel, made.members[:_WRITERS], texts, messages, now))
    head = {ConversationField.SEQ: messages, ConversationField.N: messages, ConversationField.WRITTEN_AT: now}
    database[CONVERSATIONS].update_one({"_id": channel}, {"$set": head})
    insert_rows(database, MEMBERS, [follower_row(channel, user, now)])
    read = {"r": messages, "rn": messages, "d": messages, "a": now, "w": now}
    insert_rows(database, SESSIONS, [follow_session_row(channel, user, now) | read])
    owner = insert_owner(database, user, sessions)
    # Otherwise the demo starts with the offline queue.
    mine = [session_row_id(UserId(user), ConversationId(each)) for each in owner.conversations]
    database[SESSIONS].update_many({"_id": {"$in": mine}}, {"$set": {"d": 1}})
    return Reader(user, channel, owner.conversations[-1])


def _messages(channel: ConversationId, people: Sequence[str], texts: Texts, count: int, now: int) -> Iterator[Row]:
    rng = random.Random("long channel")
    lines = texts.conversation(Language.ENGLISH, 0)
    begin = now - (count + 1) * _APART_MS
    for seq in range(1, count + 1):
        line = next(lines)
        more = [each.text for each in islice(lines, rng.randint(2, 8))] if rng.random() < _LONG_SHARE else []
        id = MessageId(first_id_at(begin + seq * _APART_MS) + seq % 4096)
        sender = UserId(people[line.writer % len(people)])
        text = "\n".join([line.text, *more])
        yield Message(id, channel, sender, MessageKind.TEXT, text, seq=seq, n=seq).to_document()
