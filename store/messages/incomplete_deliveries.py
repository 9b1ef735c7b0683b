"""Messages that were stored, and of which not all that follows was: who stored them died, and the outbox was lost as well."""

from __future__ import annotations

from collections.abc import Sequence

from store.base.ids import MessageId, parse_private
from store.base.snowflakes import first_at
from store.messages.records import Message, message_from
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, MESSAGES, SESSIONS, session_row_id


class IncompleteDeliveries:
    """Looks through messages by when they were sent. On a sharded cluster that asks every shard; it is done once after a loss."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_page(self, from_ms: int, after: MessageId | None, limit: int) -> list[Message]:
        """Messages sent from then on, by id, after one."""
        bound = {"$gt": int(after)} if after is not None else {"$gte": first_at(from_ms)}
        rows = await self._mongo.find(MESSAGES, {"_id": bound}, sort=[("_id", 1)], limit=limit)
        return [message_from(row) for row in rows]

    async def select(self, page: Sequence[Message]) -> list[Message]:
        """Those of which something is missing: their heads are behind, or the sessions of their senders or of whom they mention."""
        heads, sessions = await self._mongo.gather(
            self._rows(CONVERSATIONS, {m.conversation for m in page}),
            self._rows(SESSIONS, {row for m in page for row in _sessions_of(m)}),
        )
        return [m for m in page if not _is_followed(m, heads.get(m.conversation), sessions)]

    async def _rows(self, collection: str, ids: set[str]) -> dict[str, Document]:
        rows = await self._mongo.find(collection, {"_id": {"$in": sorted(ids)}}) if ids else []
        return {row["_id"]: row for row in rows}


def _sessions_of(message: Message) -> list[str]:
    own = [] if parse_private(message.conversation) else [message.sender]
    return [session_row_id(user, message.conversation) for user in (*own, *message.mentions)]


def _is_followed(message: Message, head: Document | None, sessions: dict[str, Document]) -> bool:
    seq, conversation = message.seq, message.conversation
    if head is None or head["s"] < seq:
        return False
    if not message.kind.countable:
        return True
    if message.mentions_all and seq not in head.get("ma", ()):
        return False
    for user in message.mentions:
        theirs = sessions.get(session_row_id(user, conversation))
        if (
            user != message.sender
            and theirs is not None
            and theirs.get("r", 0) < seq
            and seq not in theirs.get("ms", ())
        ):
            return False
    people = parse_private(conversation)
    if people is not None:
        return bool(head.get(f"q{0 if people[0] == message.sender else 1}", 0) >= seq)
    session = sessions.get(session_row_id(message.sender, conversation))
    return session is None or bool(session.get("r", 0) >= seq)
