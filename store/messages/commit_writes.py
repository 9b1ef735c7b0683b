"""Writes that follow from a batch of messages and go to MongoDB with it. All may be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.ids import ConversationId, parse_private
from store.conversations.conversation_fields import ConversationField
from store.messages.message import Message, MessageField, ReservedMessage
from store.mongo.client import Update
from store.mongo.collections import session_row_id

MOST_MENTIONS = 1_000
"""Unread messages that mention a user, or everybody, that are counted in a conversation."""

_F = ConversationField


def head_updates(batch: Sequence[ReservedMessage], timestamps_ms: Sequence[int]) -> list[Update]:
    """Return the updates that bring heads to their newest messages."""
    heads: dict[ConversationId, dict[str, int]] = {}
    for reserved, at_ms in zip(batch, timestamps_ms, strict=True):
        m = reserved.message
        head = heads.setdefault(m.conversation, {_F.SEQ: 0, _F.N: 0, _F.MOVED_AT: 0, _F.WRITTEN_AT: 0})
        head[_F.SEQ], head[_F.N] = max(head[_F.SEQ], m.seq), max(head[_F.N], m.n)
        head[_F.MOVED_AT] = max(head[_F.MOVED_AT], at_ms)
        if m.kind.countable:
            head[_F.WRITTEN_AT] = max(head[_F.WRITTEN_AT], at_ms)
            people = parse_private(m.conversation)
            if people is not None:
                side = 0 if people[0] == m.sender else 1
                wrote_seq, wrote_n = _F.WROTE_SEQ[side], _F.WROTE_N[side]
                head[_F.READ[side]] = head[_F.DELIVERED[side]] = head[wrote_seq] = max(m.seq, head.get(wrote_seq, 0))
                head[wrote_n] = max(m.n, head.get(wrote_n, 0))
    updates = [Update({"_id": c}, {"$max": head}) for c, head in heads.items()]
    for reserved in batch:
        if reserved.message.mentions_all:
            m = reserved.message
            query = {"_id": m.conversation, _F.MENTIONS_ALL: {"$ne": m.seq}}
            updates.append(Update(query, _push(_F.MENTIONS_ALL, m.seq)))
    return updates


def row_updates(reserved: ReservedMessage) -> list[Update]:
    """Return the updates of session rows: of the sender, and of the mentioned.

    In a private conversation the head says that the sender has read. The sender's session row is written there only if
    it may have mentions, which sending reads.
    """
    m = reserved.message
    marks = {"r": m.seq, "rn": m.n, "d": m.seq}
    updates = []
    if m.kind.countable:
        if reserved.reads_mentions or parse_private(m.conversation) is None:
            # Sending reads. Guarded, so that a repetition does not undo what was set since.
            query = {"_id": session_row_id(m.sender, m.conversation), "r": {"$lt": m.seq}}
            updates.append(Update(query, {"$max": marks, "$pull": {"ms": {"$lte": m.seq}}}))
        for user in m.mentions:
            if user != m.sender:
                query = {"_id": session_row_id(user, m.conversation), "r": {"$lt": m.seq}, "ms": {"$ne": m.seq}}
                updates.append(Update(query, _push("ms", m.seq)))
    return updates


def unmention_updates(
    displaced: Sequence[tuple[Message, Mapping[str, Any]]],
) -> tuple[list[UpdateOne], list[UpdateOne]]:
    """Return the updates of heads and session rows that take back mentions of messages that did not get their place.

    displaced: each message, with the document that has its place.
    """
    heads, rows = [], []
    for m, occupant in displaced:
        if m.mentions_all and not occupant.get(MessageField.MENTIONS_ALL):
            heads.append(UpdateOne({"_id": m.conversation}, {"$pull": {_F.MENTIONS_ALL: m.seq}}))
        rows += [
            UpdateOne({"_id": session_row_id(user, m.conversation)}, {"$pull": {"ms": m.seq}})
            for user in set(m.mentions) - set(occupant.get(MessageField.MENTIONS, ()))
        ]
    return heads, rows


def _push(field: str, seq: int) -> dict[str, Any]:
    return {"$push": {field: {"$each": [seq], "$slice": -MOST_MENTIONS}}}
