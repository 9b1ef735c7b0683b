"""Check of the lists of pinned messages against the marks in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from store.base.ids import ConversationId
from store.checking.check import Difference, Objects, Scope
from store.checking.conversations.stored_messages import message_pages
from store.conversations.conversation_fields import ConversationField, PinField
from store.messages.message_fields import MessageField
from store.mongo.client import Document
from store.mongo.collections import CONVERSATIONS
from store.store import Store

_F = ConversationField
_FIELDS = {_F.PINS: 1, _F.PIN_VERSION: 1}
_PINNED = {MessageField.PIN_CHANGES: {"$mod": [2, 1]}, MessageField.RECALLED_AT: {"$exists": False}}


class PinLists:
    """A conversation lists each pinned message once, in the order of the pins, and no other message."""

    name: ClassVar[str] = "pins"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some conversations."""
        query = {"_id": {"$in": list(ids)}}
        rows = await self._store.mongo.find(CONVERSATIONS, query, projection=_FIELDS)
        found = []
        for row in rows:
            pinned = await self._list_marked(ConversationId(row["_id"]))
            listed = [pin[PinField.SEQ] for pin in row.get(_F.PINS, ())]
            if sorted(listed) != pinned:
                found.append(Difference(self.name, row["_id"], "pinned messages", sorted(listed), pinned))
            numbers = [pin[PinField.NUMBER] for pin in row.get(_F.PINS, ())]
            in_order = sorted(set(numbers))
            if numbers != in_order or max(numbers, default=0) > row.get(_F.PIN_VERSION, 0):
                found.append(Difference(self.name, row["_id"], "order of pins", numbers, in_order))
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Make the list again, in a transaction that conflicts with changes of pins, and drop the cached head.

        Listed messages keep their order. Others follow.
        """
        conversation = ConversationId(object_id)

        async def work(session: Any) -> None:
            row = await self._store.mongo.find_one(CONVERSATIONS, {"_id": conversation}, session=session)
            if row is not None:
                pinned = await self._list_marked(conversation, session)
                change = {"$set": _make_again(row, pinned)}
                await self._store.mongo.find_one_and_update(
                    CONVERSATIONS, {"_id": conversation}, change, session=session
                )

        await self._store.mongo.transaction(work)
        await self._store.conversations.drop(conversation)

    async def _list_marked(self, conversation: ConversationId, session: Any = None) -> list[int]:
        """Return the seqs of messages that are marked as pinned, ascending."""
        pages = message_pages(self._store.mongo, conversation, (), _PINNED, session)
        return [message[MessageField.SEQ] async for page in pages for message in page]


def _make_again(row: Mapping[str, Any], pinned: Sequence[int]) -> Document:
    """Return the list of pins with new numbers, and the number of changes after it."""
    listed = dict.fromkeys(pin[PinField.SEQ] for pin in row.get(_F.PINS, ()))
    order = [seq for seq in listed if seq in pinned] + [seq for seq in pinned if seq not in listed]
    version = row.get(_F.PIN_VERSION, 0)
    pins = [{PinField.SEQ: seq, PinField.NUMBER: version + n} for n, seq in enumerate(order, start=1)]
    return {_F.PINS: pins, _F.PIN_VERSION: version + len(pins) + 1}
