"""Messages that were sent, edited or recalled since a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from store.base.ids import ConversationId
from store.base.snowflakes import first_id_at
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.messages.revision_store import RevisionKind
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, between_places

_F = MessageField


class ChangedMessages:
    """Finds messages by the times of their changes. On a sharded cluster the queries go to every shard."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_between(self, ranges: Sequence[tuple[ConversationId, int, int, int]]) -> list[Message]:
        """Return messages of conversations from one seq to another, both included, that were sent since a time (ms).

        One round trip.
        """
        queries = [
            between_places(conversation, first, last) | {_F.ID: {"$gte": first_id_at(since_ms)}}
            for conversation, first, last, since_ms in ranges
        ]
        return [message_from(row) for row in await self._mongo.find(MESSAGES, {"$or": queries})]

    async def list_since(self, from_ms: int, page: int) -> AsyncIterator[tuple[Sequence[Message], RevisionKind | None]]:
        """Yield pages of messages with their change: new ones in the order of ids, then edited, then recalled ones.

        Raises Unreachable.
        """
        ways: tuple[tuple[str, int, RevisionKind | None], ...] = (
            (_F.ID, first_id_at(from_ms), None),
            (_F.EDITED_AT, from_ms, RevisionKind.EDIT),
            (_F.RECALLED_AT, from_ms, RevisionKind.RECALL),
        )
        for field, first, change in ways:
            after: Document | None = None
            while True:
                query: Document = {field: {"$gte": first}}
                if after is not None:
                    later: list[Document] = [{field: after[field], _F.ID: {"$gt": after[_F.ID]}}]
                    query = {"$or": [{field: {"$gt": after[field]}}, *(later if field != _F.ID else [])]}
                sort = [(field, 1)] if field == _F.ID else [(field, 1), (_F.ID, 1)]
                rows = await self._mongo.find(MESSAGES, query, sort=sort, limit=page)
                if rows:
                    after = rows[-1]
                    yield [message_from(row) for row in rows], change
                if len(rows) < page:
                    break
