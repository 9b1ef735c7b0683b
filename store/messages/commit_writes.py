"""What follows from a batch of messages, as writes that go to MongoDB together with it. All may be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.ids import ConversationId, parse_private
from store.messages.records import Message, Reserved
from store.mongo.client import Update
from store.mongo.collections import session_row_id
from store.sessions.fields import MOST_MENTIONS


def head_updates(batch: Sequence[Reserved], stamps: Sequence[int]) -> list[Update]:
    """Heads: how far their conversations are."""
    folded: dict[ConversationId, dict[str, int]] = {}
    for reserved, at_ms in zip(batch, stamps, strict=True):
        m = reserved.message
        head = folded.setdefault(m.conversation, {"s": 0, "n": 0, "at": 0, "w": 0})
        head["s"], head["n"] = max(head["s"], m.seq), max(head["n"], m.n)
        head["at"] = max(head["at"], at_ms)
        if m.kind.countable:
            head["w"] = max(head["w"], at_ms)
            people = parse_private(m.conversation)
            if people is not None:
                side = 0 if people[0] == m.sender else 1
                head[f"r{side}"] = head[f"d{side}"] = head[f"q{side}"] = max(m.seq, head.get(f"q{side}", 0))
                head[f"m{side}"] = max(m.n, head.get(f"m{side}", 0))
    updates = [Update({"_id": c}, {"$max": head}) for c, head in folded.items()]
    for reserved in batch:
        if reserved.message.mentions_all:
            m = reserved.message
            updates.append(Update({"_id": m.conversation, "ma": {"$ne": m.seq}}, _push("ma", m.seq)))
    return updates


def row_updates(reserved: Reserved) -> list[Update]:
    """Sessions: of the sender, of those who are mentioned. That sending reads is in the head of a private conversation, and the
    sender's session there is written only where it may hold mentions, which are read by that."""
    m = reserved.message
    marks = {"r": m.seq, "rn": m.n, "d": m.seq}
    updates = []
    if m.kind.countable:
        if reserved.was_mentioned or parse_private(m.conversation) is None:
            # Sending reads. Guarded, so that repeating it does not undo what was set since.
            mine = {"_id": session_row_id(m.sender, m.conversation), "r": {"$lt": m.seq}}
            updates.append(Update(mine, {"$max": marks, "$pull": {"ms": {"$lte": m.seq}}}))
        for user in m.mentions:
            if user != m.sender:
                theirs = {"_id": session_row_id(user, m.conversation), "r": {"$lt": m.seq}, "ms": {"$ne": m.seq}}
                updates.append(Update(theirs, _push("ms", m.seq)))
    return updates


def unmention(placed: Sequence[tuple[Message, Mapping[str, Any]]]) -> tuple[list[UpdateOne], list[UpdateOne]]:
    """Takes back, in heads and in sessions, what was noted of messages that did not get their place. With each goes the
    document that holds it."""
    heads, rows = [], []
    for m, holder in placed:
        if m.mentions_all and not holder.get("ma"):
            heads.append(UpdateOne({"_id": m.conversation}, {"$pull": {"ma": m.seq}}))
        rows += [
            UpdateOne({"_id": session_row_id(user, m.conversation)}, {"$pull": {"ms": m.seq}})
            for user in set(m.mentions) - set(holder.get("m", ()))
        ]
    return heads, rows


def _push(field: str, seq: int) -> dict[str, Any]:
    return {"$push": {field: {"$each": [seq], "$slice": -MOST_MENTIONS}}}
