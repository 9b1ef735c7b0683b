"""Updates of session rows that messages cause. All may be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pymongo import UpdateOne

from store.base.ids import ConversationKind, kind_of, parse_private
from store.messages.message import CommittedMessage, Message, ReservedMessage
from store.messages.message_fields import MessageField
from store.mongo.collections import session_row_id
from store.mongo.writes import Document, Update
from store.sessions.channel_changes import ChannelChange
from store.sessions.fields import MAX_UNREAD_MENTIONS, SessionFields, channel_mark

_READ_SEQ = SessionFields.acknowledged_seq.stored
_READ_N = SessionFields.read_n.stored
_DELIVERED_SEQ = SessionFields.received_seq.stored
_MENTIONS = SessionFields.mentions.stored
_ACTIVE_TS = SessionFields.active_ts.stored

_ROWS_BEGIN_WITH_MESSAGES = (ConversationKind.CHANNEL, ConversationKind.THREAD)
"""There a message may create the rows of its sender and of users who are notified."""


def message_updates(committed: CommittedMessage) -> list[Update]:
    """Return the updates that a message causes: of its sender's row, and of the mentioned users' rows.

    In a private conversation the head has the sender's read position. The sender's row is written there only if it may
    have unread mentions, which sending marks as read. In a channel or thread the message may create the rows.
    """
    reserved, m = committed.reserved, committed.reserved.message
    updates = []
    # Webhooks have no session, and mention nobody.
    if m.is_read_by_sender:
        if kind_of(m.conversation) in _ROWS_BEGIN_WITH_MESSAGES:
            progress = {_READ_SEQ: m.seq, _READ_N: m.n, _DELIVERED_SEQ: m.seq, _ACTIVE_TS: committed.at_ms}
            change: dict[str, Any] = {"$max": progress, "$pull": {_MENTIONS: {"$lte": m.seq}}}
            if mark := channel_mark(m.conversation):
                change["$setOnInsert"] = mark
            updates.append(Update({"_id": session_row_id(m.sender, m.conversation)}, change, upsert=True))
        elif reserved.reads_mentions or parse_private(m.conversation) is None:
            # Sending reads. The condition prevents a repetition from undoing later changes.
            query = {"_id": session_row_id(m.sender, m.conversation), _READ_SEQ: {"$lt": m.seq}}
            progress = {_READ_SEQ: m.seq, _READ_N: m.n, _DELIVERED_SEQ: m.seq}
            updates.append(Update(query, {"$max": progress, "$pull": {_MENTIONS: {"$lte": m.seq}}}))
        for user in reserved.notified:
            mention = channel_mention(m).mention_update(committed.at_ms)
            updates.append(Update({"_id": session_row_id(user, m.conversation)}, mention, upsert=True))
        for user in m.mentions if kind_of(m.conversation) not in _ROWS_BEGIN_WITH_MESSAGES else ():
            if user != m.sender:
                query = {
                    "_id": session_row_id(user, m.conversation),
                    _READ_SEQ: {"$lt": m.seq},
                    _MENTIONS: {"$ne": m.seq},
                }
                updates.append(
                    Update(query, {"$push": {_MENTIONS: {"$each": [m.seq], "$slice": -MAX_UNREAD_MENTIONS}}})
                )
    return updates


def channel_mention(message: Message) -> ChannelChange:
    """Return the change of the sessions of users that a message mentions, in a channel or an unfollowed thread.

    A session that begins with it has everything before the message read.
    """
    before = message.seq - 1, message.n - 1
    return ChannelChange(message.conversation, begins_at=before, mention_seq=message.seq)


def channel_reading(message: Message) -> ChannelChange:
    """Return the change of the sender's session in a channel or an unfollowed thread: sending reads."""
    place = message.seq, message.n
    return ChannelChange(message.conversation, begins_at=place, read=place)


def unmention_updates(reserved: ReservedMessage, occupant: Mapping[str, Any]) -> list[UpdateOne]:
    """Return the updates that take back a message's mentions because another message has its place.

    occupant: the other message's document. Users that it mentions too keep the mention.
    """
    message = reserved.message
    if occupant.get(MessageField.MENTIONED_ROLES):
        # It may mention any of them.
        return []
    return [
        UpdateOne({"_id": session_row_id(user, message.conversation)}, {"$pull": {_MENTIONS: message.seq}})
        for user in {*message.mentions, *reserved.notified} - set(occupant.get(MessageField.MENTIONS, ()))
    ]


def has_mention(row: Document, seq: int) -> bool:
    """Return whether a row has a message's mention, or its user has read the message."""
    return row.get(_READ_SEQ, 0) >= seq or seq in row.get(_MENTIONS, ())


def has_read(row: Document, seq: int) -> bool:
    """Return whether the user of a row has read a message."""
    return bool(row.get(_READ_SEQ, 0) >= seq)
