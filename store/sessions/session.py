"""One user's session of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from store.base.ids import ConversationId, UserId, session_id
from store.sessions.fields import MAX_UNREAD_MENTIONS, SessionFields, record_of
from store.sessions.session_lists import (
    count_read,
    count_unread,
    count_unread_mentions,
    ended_seq,
    is_channel,
    is_thread,
    is_valid,
)


@dataclass(frozen=True, slots=True)
class Session(SessionFields):
    """One user's state in one conversation, or in a subBiz (its gateway), with values derived from the stored fields.

    The rules of `valid`, `unread_count` and `unread_mention_count` are in `session_lists.py`.
    """

    user: UserId
    conversation: ConversationId
    record: Mapping[str, Any]

    @property
    def is_gateway(self) -> bool:
        """True for the session that represents all sessions of a subBiz."""
        return self.conversation.startswith("b_")

    @property
    def public_id(self) -> str:
        """The session's id as the API writes it."""
        return session_id(self.user, self.conversation)

    @property
    def shown_conversation(self) -> ConversationId | None:
        """The conversation whose newest message the session shows; of a gateway: the newest inside, if there is one.

        None for a hidden thread: after a load the session does not know the last reply that the user may read.
        """
        if self.hidden:
            return None
        return self.newest_inside if self.is_gateway else self.conversation

    @property
    def shown_peer_read_seq(self) -> int | None:
        """Read position of the peer; None if it is not the session of a private conversation."""
        return self.peer_read_seq if self.conversation.startswith("p_") else None

    @property
    def shown_peer_delivered_seq(self) -> int | None:
        """Delivered position of the peer; None if it is not the session of a private conversation."""
        return self.peer_delivered_seq if self.conversation.startswith("p_") else None

    @property
    def exists(self) -> bool:
        """False for a session of a private conversation without a message."""
        return self.write_seq > 0 or not self.conversation.startswith("p_")

    @property
    def valid(self) -> bool:
        """True while it is in lists.

        A deleted session is valid again after the next countable message; a session of a group that has ended is never
        valid. A gateway is valid while a session inside is valid. A thread is valid while the user follows it, and can
        see its parent conversation.
        """
        return is_valid(self.conversation, self.record)

    @property
    def frozen(self) -> bool:
        """True for a former member, whose session receives no further messages."""
        return self.last_readable_seq is not None

    @property
    def read_seq(self) -> int:
        """Position up to which nothing is left to read: it was read or deleted, or the group has ended."""
        return max(self.acknowledged_seq, ended_seq(self.record))

    @property
    def read_count(self) -> int:
        """Countable messages up to `read_seq`, of all senders; `n` minus this is `unread_count`. A gateway: 0."""
        return count_read(self.record)

    @property
    def delivered_seq(self) -> int:
        """Position up to which nothing is left to deliver."""
        return max(self.received_seq, ended_seq(self.record))

    @property
    def unread_count(self) -> int:
        """Countable messages after those that were read or deleted; of a gateway: inside, without muted sessions."""
        return count_unread(self.conversation, self.record) if self.has_counts else 0

    @property
    def unread_mention_count(self) -> int:
        """Unread messages that mention the user or everybody; of a gateway: inside, without muted sessions."""
        return count_unread_mentions(self.conversation, self.record) if self.has_counts else 0

    @property
    def has_counts(self) -> bool:
        """True if it shows what is unread: it is valid, or that of a thread that the user sees and does not follow."""
        return self.valid or (self.comes_from_head and not self.hidden)

    @property
    def comes_from_head(self) -> bool:
        """True if messages of others do not move it: in a channel, or in a thread that the user does not follow.

        What depends on these messages comes from the conversation's head when the session is read.
        """
        return is_channel(self.conversation) or (is_thread(self.conversation) and not self.follows)

    @property
    def is_unread(self) -> bool:
        """True if it is valid and has unread messages, or is marked unread."""
        return self.valid and (self.unread_count > 0 or self.unread_status)

    @property
    def unread_status(self) -> bool:
        """True if marked unread and not read since. Reading further, also by sending, removes the mark."""
        return self.unread_mark is not None and self.acknowledged_seq <= self.unread_mark


def session_from(user: UserId, conversation: ConversationId, record: bytes) -> Session:
    """Return the session of a record as Redis stores it."""
    return Session(user, conversation, orjson.loads(record))


def invalid_session(user: UserId, conversation: ConversationId, seq: int) -> Session:
    """Return an INVALID session in which everything up to a seq is read. It is not stored."""
    record = record_of(write_seq=seq, acknowledged_seq=seq, received_seq=seq, deleted_seq=seq, deleted_n=0)
    return Session(user, conversation, record)


class WaitingMessages(NamedTuple):
    """Messages that wait to be applied to a session, as `_append.lua` notes them in the key `meta`.

    own_n: `n` of the user's own newest one, 0 if there is none. mention: one of them mentions the user.
    """

    own_n: int
    mention: bool


def waiting_field(conversation: ConversationId) -> str:
    """Return the field of `meta` with the messages that wait for a session."""
    return f"w:{conversation}"


def waiting_from(text: bytes | None) -> WaitingMessages:
    """Return the waiting messages in such a field; None: nothing waits."""
    if text is None:
        return WaitingMessages(0, False)
    *_, own_n = text.split(b" ", 8)[:8]
    return WaitingMessages(int(own_n), text.count(b" ") > 7)


def with_waiting(session: Session, text: bytes) -> Session:
    """Return a session as it is after the messages that wait for it were applied, but for times.

    text: the field of `waiting_field`. `receive` in `_records.lua` has the same rule.
    """
    seq, n, _, _, _, others_seq, own_seq, own_n, *mentions = map(int, text.split())
    record = dict(session.record)
    raised = {
        Session.write_seq: seq,
        Session.n: n,
        Session.acknowledged_seq: own_seq,
        Session.read_n: own_n,
        Session.received_seq: own_seq,
    }
    if session.conversation.startswith("p_"):
        raised |= {Session.peer_read_seq: others_seq, Session.peer_delivered_seq: others_seq}
    for field, value in raised.items():
        record[field.stored] = max(field.of(session), value)
    unread = sorted({each for each in (*session.mentions, *mentions) if each > record[Session.acknowledged_seq.stored]})
    record.pop(Session.mentions.stored, None)
    if unread:
        record[Session.mentions.stored] = unread[-MAX_UNREAD_MENTIONS:]
    return Session(session.user, session.conversation, record)
