"""Check of the places of messages, and of what heads keep of single messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from store.base.ids import ConversationId, bucket_of, parse_private
from store.checking.check import Difference, Objects, Scope
from store.checking.conversations.stored_messages import message_pages
from store.conversations.conversation_fields import ConversationField
from store.messages.message import MessageKind
from store.messages.message_fields import MessageField
from store.mongo.client import Document
from store.mongo.collections import CONVERSATIONS
from store.sessions.fields import MAX_UNREAD_MENTIONS
from store.store import Store

_F, _M = ConversationField, MessageField
_COMPARED_MENTIONS = MAX_UNREAD_MENTIONS // 2
"""Newest mentions of everybody that are compared. The oldest ones are dropped in the order in which they came."""

_MENTIONS = "mentions of everybody"
_HEAD_FIELDS = (_F.SEQ, _F.FLOOR_SEQ, _F.FLOOR_N, _F.MENTIONS_ALL, *_F.WROTE_SEQ, *_F.WROTE_N)
_MESSAGE_FIELDS = (_M.N, _M.KIND, _M.SENDER, _M.MENTIONS_ALL)


class MessageNumbers:
    """Each place has one message, and `n` of each message counts the countable ones up to it.

    Expired messages are left out: they may be removed. `n` of the floor stands for them.

    The head has the messages that mention everybody, and in a private conversation the newest message of each of the
    two people. A wrong `n` cannot be repaired, because read positions refer to it, and then the head is not compared.
    """

    name: ClassVar[str] = "messages"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some conversations."""
        heads = await self._read_heads(ids)
        return [difference for head in heads for difference in (await self._derive(head))[1]]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Derive the fields of the head from the messages, and drop the cached head.

        If a message came meanwhile, nothing is changed: the head has other values than those that were compared.
        """
        for head in await self._read_heads([object_id]):
            values, _ = await self._derive(head)
            # A missing field matches None.
            seen = {field: head.get(field) for field in values}
            if values:
                await self._store.mongo.update_one(CONVERSATIONS, {"_id": object_id} | seen, {"$set": values})
                await self._store.conversations.drop(ConversationId(object_id))

    async def _read_heads(self, ids: Sequence[str]) -> list[Document]:
        query = {"_id": {"$in": list(ids)}}
        return await self._store.mongo.find(CONVERSATIONS, query, projection=dict.fromkeys(_HEAD_FIELDS, 1))

    async def _derive(self, head: Document) -> tuple[Document, list[Difference]]:
        """Return the fields of a head that differ from its messages, as they should be, and all differences."""
        conversation, last_seq = ConversationId(head["_id"]), head[_F.SEQ]
        people = parse_private(conversation)
        found = list[Difference]()
        mentions, newest = list[int](), dict[str, Document]()
        floor, n = head.get(_F.FLOOR_SEQ, 0), head.get(_F.FLOOR_N, 0)
        seq = floor
        pages = message_pages(self._store.mongo, conversation, _MESSAGE_FIELDS)
        async for row in _each(pages):
            if row[_M.SEQ] <= floor:
                continue
            n += MessageKind(row[_M.KIND]).countable
            if row[_M.SEQ] <= seq or row[_M.BUCKET] != bucket_of(row[_M.SEQ]):
                found.append(self._difference(conversation, f"place after seq {seq}", row[_M.SEQ], seq + 1))
            if row[_M.N] != n:
                found.append(self._difference(conversation, f"n of seq {row[_M.SEQ]}", row[_M.N], n))
                # One report for each place at which the count goes wrong.
                n = row[_M.N]
            seq = row[_M.SEQ]
            if seq <= last_seq and MessageKind(row[_M.KIND]).countable:
                newest[row[_M.SENDER]] = row
                if row.get(_M.MENTIONS_ALL):
                    mentions.append(seq)
        if found:
            # The values in the head follow from the numbers of messages, and those are wrong.
            return {}, found
        values: Document = {}
        stored = sorted(each for each in head.get(_F.MENTIONS_ALL, ()) if floor < each <= last_seq)
        if stored[-_COMPARED_MENTIONS:] != mentions[-_COMPARED_MENTIONS:]:
            values[_F.MENTIONS_ALL] = mentions[-MAX_UNREAD_MENTIONS:]
            found.append(Difference(self.name, conversation, _MENTIONS, stored, mentions[-MAX_UNREAD_MENTIONS:]))
        for side, user in enumerate(people[:2] if people else ()):
            wrote = newest.get(user, {_M.SEQ: 0, _M.N: 0})
            if not wrote[_M.SEQ] and head.get(_F.WROTE_SEQ[side], 0) <= floor:
                # Their newest message has expired.
                continue
            pairs = ((_F.WROTE_SEQ[side], _M.SEQ, "seq"), (_F.WROTE_N[side], _M.N, "n"))
            for field, source, name in pairs:
                if head.get(field, 0) != wrote[source]:
                    values[field] = wrote[source]
                    text = f"{name} of the newest message of {user}"
                    found.append(Difference(self.name, conversation, text, head.get(field, 0), wrote[source]))
        return values, found

    def _difference(self, conversation: str, field: str, stored: Any, expected: Any) -> Difference:
        return Difference(self.name, conversation, field, stored, expected, is_repairable=False)


async def _each(pages: AsyncIterator[list[Document]]) -> AsyncIterator[Document]:
    async for page in pages:
        for row in page:
            yield row
