"""Writes to session rows that follow from messages and group changes. All may be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pymongo import UpdateOne

from store.base.ids import ConversationId, UserId, parse_private
from store.conversations.group_change import GroupChange
from store.messages.message import Message, MessageField, ReservedMessage
from store.mongo.client import Document, Update
from store.mongo.collections import session_row_id
from store.sessions.fields import (
    JOINED_N,
    LAST_READABLE_N,
    LAST_READABLE_SEQ,
    MOST_MENTIONS,
    RESET_BY_JOINING,
    SessionFields,
)

_READ_SEQ = SessionFields.acknowledged_seq.stored
_READ_N = SessionFields.read_n.stored
_DELIVERED_SEQ = SessionFields.received_seq.stored
_ACTIVE_TS = SessionFields.active_ts.stored
_WRITE_TS = SessionFields.write_ts.stored
_MENTIONS = SessionFields.mentions.stored
_RESET_BY_JOINING = tuple(field.stored for field in RESET_BY_JOINING)


def new_row_fields(at_ms: int) -> Document:
    """Return the fields of a row of a session in which nothing was written, that moved at a time."""
    return {_READ_SEQ: 0, _READ_N: 0, _DELIVERED_SEQ: 0, _ACTIVE_TS: at_ms, _WRITE_TS: at_ms}


def message_updates(reserved: ReservedMessage) -> list[Update]:
    """Return the updates that a message makes: of its sender's row, and of the mentioned users' rows.

    In a private conversation the head says that the sender has read. The sender's row is written there only if it may
    have mentions, which sending reads.
    """
    m = reserved.message
    updates = []
    if m.kind.countable:
        if reserved.reads_mentions or parse_private(m.conversation) is None:
            # Sending reads. Guarded, so that a repetition does not undo what was set since.
            query = {"_id": session_row_id(m.sender, m.conversation), _READ_SEQ: {"$lt": m.seq}}
            progress = {_READ_SEQ: m.seq, _READ_N: m.n, _DELIVERED_SEQ: m.seq}
            updates.append(Update(query, {"$max": progress, "$pull": {_MENTIONS: {"$lte": m.seq}}}))
        for user in m.mentions:
            if user != m.sender:
                query = {
                    "_id": session_row_id(user, m.conversation),
                    _READ_SEQ: {"$lt": m.seq},
                    _MENTIONS: {"$ne": m.seq},
                }
                updates.append(Update(query, {"$push": {_MENTIONS: {"$each": [m.seq], "$slice": -MOST_MENTIONS}}}))
    return updates


def unmention_updates(message: Message, occupant: Mapping[str, Any]) -> list[UpdateOne]:
    """Return the updates that take back a message's mentions because another message has its place.

    occupant: the other message's document. Users whom it mentions too keep the mention.
    """
    return [
        UpdateOne({"_id": session_row_id(user, message.conversation)}, {"$pull": {_MENTIONS: message.seq}})
        for user in set(message.mentions) - set(occupant.get(MessageField.MENTIONS, ()))
    ]


def has_mention(row: Document, seq: int) -> bool:
    """Return whether a row has a message's mention, or its user has read the message."""
    return row.get(_READ_SEQ, 0) >= seq or seq in row.get(_MENTIONS, ())


def has_read(row: Document, seq: int) -> bool:
    """Return whether the user of a row has read a message."""
    return bool(row.get(_READ_SEQ, 0) >= seq)


def membership_updates(message: Message, change: GroupChange, at_ms: int) -> list[UpdateOne]:
    """Return the updates of sessions that begin or end with a group change.

    A session that begins has read everything so far. One that ends stays as it was at the message before.
    """
    return [
        *_begin_updates(message, change.joined, at_ms),
        *_end_updates(message, change.left, at_ms, change.written_at_ms),
    ]


def _begin_updates(message: Message, users: Iterable[UserId], at_ms: int) -> list[UpdateOne]:
    seq, n = message.seq, message.n
    begin = {
        "$set": {JOINED_N: n},
        "$max": {_READ_SEQ: seq, _READ_N: n, _DELIVERED_SEQ: seq, _ACTIVE_TS: at_ms, _WRITE_TS: at_ms},
        "$unset": dict.fromkeys((*_RESET_BY_JOINING, LAST_READABLE_SEQ, LAST_READABLE_N), ""),
        "$pull": {_MENTIONS: {"$lte": seq}},
    }
    return [_update(user, message.conversation, begin, upsert=True) for user in users]


def _end_updates(message: Message, users: Iterable[UserId], at_ms: int, written_at_ms: int) -> list[UpdateOne]:
    seq, n = message.seq, message.n
    # Messages written before they joined are not theirs, even if they became durable afterwards.
    written = {"$cond": [{"$gt": [n, {"$ifNull": [f"${JOINED_N}", -1]}]}, written_at_ms, 0]}
    fields = {
        LAST_READABLE_SEQ: seq - 1,
        LAST_READABLE_N: n,
        _ACTIVE_TS: {"$max": [f"${_ACTIVE_TS}", at_ms]},
        _WRITE_TS: {"$max": [f"${_WRITE_TS}", written]},
    }
    return [_update(user, message.conversation, [{"$set": fields}]) for user in users]


def _update(user: UserId, conversation: ConversationId, update: Any, *, upsert: bool = False) -> UpdateOne:
    return UpdateOne({"_id": session_row_id(user, conversation)}, update, upsert=upsert)
