"""Check of the heads of conversations against their newest messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from store.base.snowflakes import created_at_ms
from store.checking.check import Difference, Objects, Scope
from store.conversations.conversation_fields import ConversationField
from store.messages.message import MessageKind
from store.messages.message_fields import MessageField
from store.mongo.collections import CONVERSATIONS, MESSAGES
from store.sessions.records import LATE_MS
from store.store import Store

_F = ConversationField
_NEWEST, _COUNTED = "newest", "counted"
_FIELDS = {_F.SEQ: "newest seq", _F.N: "number of messages", _F.MOVED_AT: "last change", _F.WRITTEN_AT: "last message"}
_TIMES = {_F.MOVED_AT: _NEWEST, _F.WRITTEN_AT: _COUNTED}


class Heads:
    """The newest seq, n and times of each conversation are those of its newest messages.

    A message has the time at which it was accepted, and the head the later one at which its commit began. So a time of
    the head may be later than that of the message.
    """

    name: ClassVar[str] = "heads"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some conversations."""
        rows = await self._read(ids)
        return [
            Difference(self.name, row["_id"], _FIELDS[field], row.get(field, 0), value)
            for row in rows
            for field, value in _expected(row).items()
            if not _agrees(field, row.get(field, 0), value)
        ]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Take the values from the newest messages, and drop the cached head.

        Messages that become durable meanwhile raise the values again, or have raised them.
        """
        for row in await self._read([object_id]):
            seen = {field: row.get(field) for field in (_F.SEQ, _F.N)}
            values = {
                field: value for field, value in _expected(row).items() if not _agrees(field, row.get(field, 0), value)
            }
            if values:
                await self._store.mongo.update_one(CONVERSATIONS, {"_id": row["_id"]} | seen, {"$set": values})
                await self._store.conversations.drop(row["_id"])

    async def _read(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return the heads of conversations with their newest message, and the newest that is countable."""
        countable = {"$match": {MessageField.KIND: {"$ne": MessageKind.SYSTEM.value}}}
        pipeline: list[Mapping[str, Any]] = [
            {"$match": {"_id": {"$in": list(ids)}}},
            {"$project": dict.fromkeys((*_FIELDS, _F.FLOOR_SEQ, _F.FLOOR_N), 1)},
            {"$lookup": _lookup(_NEWEST)},
            {"$lookup": _lookup(_COUNTED, countable)},
        ]
        return await self._store.mongo.aggregate(CONVERSATIONS, pipeline)


def _lookup(name: str, *stages: Mapping[str, Any]) -> Mapping[str, Any]:
    newest_first = {"$sort": {MessageField.BUCKET: -1, MessageField.SEQ: -1}}
    return {
        "from": MESSAGES,
        "localField": "_id",
        "foreignField": MessageField.CONVERSATION,
        "pipeline": [*stages, newest_first, {"$limit": 1}, {"$project": {MessageField.SEQ: 1, MessageField.N: 1}}],
        "as": name,
    }


def _expected(row: Mapping[str, Any]) -> dict[str, int]:
    """Return what the messages of a conversation give, by stored name: exact values, and the earliest times."""
    newest = row[_NEWEST][0] if row[_NEWEST] else {}
    times = {
        field: created_at_ms(row[messages][0][MessageField.ID]) for field, messages in _TIMES.items() if row[messages]
    }
    # The head keeps the place of the newest message after that has expired and is removed.
    seq = max(newest.get(MessageField.SEQ, 0), row.get(_F.FLOOR_SEQ, 0))
    return {_F.SEQ: seq, _F.N: max(newest.get(MessageField.N, 0), row.get(_F.FLOOR_N, 0))} | times


def _agrees(field: str, stored: int, expected: int) -> bool:
    # Another server may have accepted the message than the one that stored it, and its clock may be ahead.
    return stored >= expected - LATE_MS if field in _TIMES else stored == expected
