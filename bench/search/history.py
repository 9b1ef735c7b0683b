"""A user with many conversations that are full of messages, written to MongoDB as the store writes them."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pymongo.database import Database

from bench.search.texts import Language, Line, Texts
from bench.session_data import Row
from bench.workspace_data import follow_session_row, follower_row, insert_rows, insert_workspace
from store.base.ids import ConversationId, MessageId, UserId, group_id
from store.base.snowflakes import first_id_at
from store.conversations.conversation_fields import ConversationField
from store.messages.message import Message, MessageKind
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS, member_row_id, session_row_id

_APART_MS = 10_000
_LONGEST_BURST = 9
"""Most messages of one conversation in a row; at least one."""

_PEOPLE = 200
_GROUP_SIZE = 10
_SAMPLES = 2_000
_ACTIVITY = 0.9
"""Conversation number n has a share of all messages in proportion to (n + 1) ** -_ACTIVITY."""

_CHANNEL_LANGUAGES = [*(list(Language) * 3), *[Language.ENGLISH] * 3]
"""Languages of the channels, the most active one first: five to six of each ten messages are English."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that the reader has. Its `people` write there."""

    id: ConversationId
    language: Language
    people: Sequence[str]


@dataclass(slots=True)
class History:
    """Messages of a user that were inserted.

    Attributes:
        reader: User who has all conversations: follows the channels, and is a member of the groups.
        conversations: The most active first.
        messages: Number of all messages.
        words: For each language, the number of messages that have a word. Words are what is between white space.
        samples: For each language, texts of some messages.
    """

    reader: str
    conversations: Sequence[Conversation]
    messages: int
    words: dict[Language, Counter[str]] = field(default_factory=lambda: {language: Counter() for language in Language})
    samples: dict[Language, list[str]] = field(default_factory=lambda: {language: [] for language in Language})


def insert_history(database: Database[Row], texts: Texts, conversations: int, messages: int) -> History:
    """Insert a workspace, its channels and groups of one user, and messages, one every ten seconds until now.

    They come in bursts, and all conversations have at least one. So most rows of the index, which have messages of one
    hour, are not full, as in a real deployment.
    """
    now = time.time_ns() // 1_000_000
    channels = len(_CHANNEL_LANGUAGES)
    workspace = insert_workspace(database, members=_PEOPLE, channels=channels, followers_of_small=0, history=0)
    people = list(workspace.members)
    reader = people[0]
    made = [
        Conversation(channel, language, people)
        for channel, language in zip(workspace.channels, _CHANNEL_LANGUAGES, strict=True)
    ]
    rng = random.Random("history")
    for number in range(conversations - channels):
        group = group_id(first_id_at(now - (messages + 1) * _APART_MS) + number)
        members = [reader, *rng.sample(people[1:], _GROUP_SIZE - 1)]
        # As many English ones as of the other languages together.
        language = Language.ENGLISH if number % 2 else list(Language)[1 + number // 2 % 3]
        made.append(Conversation(group, language, members))
    history = History(reader, made, messages)
    followed = [channel for channel in workspace.channels if channel != workspace.large]
    insert_rows(database, MEMBERS, (follower_row(channel, reader, now) for channel in followed))
    insert_rows(database, SESSIONS, (follow_session_row(channel, reader, now) for channel in followed))
    _insert_messages(database, texts, history, now)
    return history


def _insert_messages(database: Database[Row], texts: Texts, history: History, now: int) -> None:
    begin = now - history.messages * _APART_MS
    seqs: Counter[ConversationId] = Counter()
    places = _choose_places(history)
    lines = _lines(texts, history.conversations)
    rng = random.Random("samples")

    def rows() -> Iterator[Row]:
        for number, place in enumerate(places):
            conversation, line = history.conversations[place], next(lines[place])
            seqs[conversation.id] += 1
            seq = seqs[conversation.id]
            id = MessageId(first_id_at(begin + number * _APART_MS) + number % 4096)
            sender = UserId(conversation.people[line.writer % len(conversation.people)])
            _note(history, rng, conversation.language, line.text)
            message = Message(id, conversation.id, sender, MessageKind.TEXT, line.text, seq=seq, n=seq)
            yield message.to_document()

    insert_rows(database, MESSAGES, rows())
    groups = [conversation for conversation in history.conversations if conversation.id.startswith("g_")]
    insert_rows(database, CONVERSATIONS, (_group(group, seqs[group.id], begin) for group in groups))
    insert_rows(database, MEMBERS, (row for group in groups for row in _members(group, begin)))
    insert_rows(database, SESSIONS, (row for group in groups for row in _sessions(group, seqs[group.id], begin)))
    for conversation in history.conversations:
        if conversation.id.startswith("c_"):
            seq = seqs[conversation.id]
            head = {ConversationField.SEQ: seq, ConversationField.N: seq, ConversationField.WRITTEN_AT: now}
            database[CONVERSATIONS].update_one({"_id": conversation.id}, {"$set": head})


def _choose_places(history: History) -> Iterator[int]:
    """Yield the number of the conversation of each message."""
    count = len(history.conversations)
    weights = list(itertools.accumulate((number + 1) ** -_ACTIVITY for number in range(count)))
    rng = random.Random("places")
    yield from range(min(count, history.messages))
    left = history.messages - count
    while left > 0:
        burst = min(left, rng.randint(1, _LONGEST_BURST))
        yield from itertools.repeat(rng.choices(range(count), cum_weights=weights)[0], burst)
        left -= burst


def _lines(texts: Texts, conversations: Sequence[Conversation]) -> list[Iterator[Line]]:
    counted: Counter[Language] = Counter()
    lines = []
    for conversation in conversations:
        lines.append(texts.conversation(conversation.language, counted[conversation.language]))
        counted[conversation.language] += 1
    return lines


def _note(history: History, rng: random.Random, language: Language, text: str) -> None:
    history.words[language].update(word for word in set(text.lower().split()) if word.isalpha())
    samples = history.samples[language]
    if len(samples) < _SAMPLES:
        samples.append(text)
    elif rng.random() < _SAMPLES / history.messages:
        samples[rng.randrange(_SAMPLES)] = text


def _group(group: Conversation, seq: int, at: int) -> Row:
    owner = group.people[0]
    return {
        "_id": group.id, "k": "G", "s": seq, "n": seq, "at": at, "w": at, "name": f"Group {group.id[-5:]}",
        "own": owner, "by": owner, "ct": at, "mc": len(group.people),
    }  # fmt: skip


def _members(group: Conversation, at: int) -> Iterator[Row]:
    for person in group.people:
        role = "OWNER" if person == group.people[0] else "MEMBER"
        yield {"_id": member_row_id(group.id, UserId(person)), "r": role, "i": [[1, -1]], "j": at, "v": 0}


def _sessions(group: Conversation, seq: int, at: int) -> Iterator[Row]:
    for person in group.people:
        row = session_row_id(UserId(person), group.id)
        yield {"_id": row, "r": seq, "rn": seq, "d": seq, "a": at, "w": at}
