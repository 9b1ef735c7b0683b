"""Incomplete deliveries: stored messages whose fan-out was not finished, and whose outbox entry was lost as well."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.ids import ConversationKind, MessageId, kind_of, parse_private
from store.base.snowflakes import first_id_at
from store.conversations.conversation_fields import ConversationField
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, SESSIONS, session_row_id
from store.sessions.row_writes import has_mention, has_read


class IncompleteDeliveries:
    """Finds incomplete deliveries by the time at which the messages were sent.

    On a sharded cluster this query goes to every shard. It is made once after a loss.
    """

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_page(self, from_ms: int, after: MessageId | None, limit: int) -> list[Message]:
        """Return messages sent since a time, ordered by id. after: the last message of the previous page."""
        bound = {"$gt": int(after)} if after is not None else {"$gte": first_id_at(from_ms)}
        query = {MessageField.ID: bound}
        rows = await self._mongo.find(MESSAGES, query, sort=[(MessageField.ID, 1)], limit=limit)
        return [message_from(row) for row in rows]

    async def select_incomplete(self, page: Sequence[Message]) -> list[Message]:
        """Return the messages whose head or session updates are missing: one round trip."""
        heads, sessions = await self._mongo.gather(
            self._rows(CONVERSATIONS, {m.conversation for m in page}),
            self._rows(SESSIONS, {row for m in page for row in _session_rows(m)}),
        )
        return [m for m in page if not _is_complete(m, heads.get(m.conversation), sessions)]

    async def _rows(self, collection: str, ids: set[str]) -> dict[str, Document]:
        rows = await self._mongo.find(collection, {"_id": {"$in": sorted(ids)}}) if ids else []
        return {row["_id"]: row for row in rows}


def _session_rows(message: Message) -> list[str]:
    """Return the ids of session rows that the message's commit updates."""
    own = [] if parse_private(message.conversation) or not message.is_read_by_sender else [message.sender]
    return [session_row_id(user, message.conversation) for user in (*own, *message.mentions)]


def _is_complete(message: Message, head: Document | None, sessions: dict[str, Document]) -> bool:
    seq, conversation = message.seq, message.conversation
    if head is None or head[ConversationField.SEQ] < seq:
        return False
    if not message.kind.countable:
        return True
    if message.mentions_all and seq not in head.get(ConversationField.MENTIONS_ALL, ()):
        return False
    is_in_thread = kind_of(conversation) is ConversationKind.THREAD
    for user in message.mentions:
        row = sessions.get(session_row_id(user, conversation))
        if user == message.sender:
            continue
        # In a thread the message creates the row.
        if (row is None and is_in_thread) or (row is not None and not has_mention(row, seq)):
            return False
    people = parse_private(conversation)
    if people is not None:
        side = 0 if people[0] == message.sender else 1
        return bool(head.get(ConversationField.WROTE_SEQ[side], 0) >= seq)
    if message.is_from_webhook:
        return True
    session = sessions.get(session_row_id(message.sender, conversation))
    if session is None:
        # In a channel or thread the message creates the row.
        return kind_of(conversation) not in (ConversationKind.CHANNEL, ConversationKind.THREAD)
    return has_read(session, seq)
