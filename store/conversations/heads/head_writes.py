"""Updates of heads that messages cause, written to MongoDB together with the messages. All may be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.ids import ConversationId, parse_private
from store.conversations.conversation_fields import ConversationField
from store.messages.message import CommittedMessage, Message
from store.messages.message_fields import MessageField
from store.mongo.writes import Update
from store.sessions.fields import MAX_UNREAD_MENTIONS

_F = ConversationField


def head_updates(durable: Sequence[CommittedMessage]) -> list[Update]:
    """Return the updates that bring heads to their newest messages."""
    heads: dict[ConversationId, dict[str, int]] = {}
    for committed in durable:
        m, at_ms = committed.reserved.message, committed.at_ms
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
    for committed in durable:
        m = committed.reserved.message
        if m.mentions_all and m.kind.countable:
            query = {"_id": m.conversation, _F.MENTIONS_ALL: {"$ne": m.seq}}
            push = {"$each": [m.seq], "$slice": -MAX_UNREAD_MENTIONS}
            updates.append(Update(query, {"$push": {_F.MENTIONS_ALL: push}}))
    return updates


def unmention_updates(message: Message, occupant: Mapping[str, Any]) -> list[UpdateOne]:
    """Return the updates of heads that take back a message's mention of everybody.

    occupant: the document of the other message that has its place.
    """
    if not message.mentions_all or occupant.get(MessageField.MENTIONS_ALL):
        return []
    return [UpdateOne({"_id": message.conversation}, {"$pull": {_F.MENTIONS_ALL: message.seq}})]
