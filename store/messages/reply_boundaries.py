"""Boundaries in threads: which replies took their place before, and which after, a seq of the parent conversation.

Readers who were not always in the parent conversation may read only a part of a thread. A boundary is an end of it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from store.base.ids import ConversationId
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, between_places
from store.mongo.index_fields import PLACE

_MAX_BOUNDARIES = 20_000
"""Boundaries that a process keeps. Each takes about 200 bytes."""

_FIRST = [(name, 1) for name, _ in PLACE]
_LAST = [(name, -1) for name, _ in PLACE]
_PROJECTION = {MessageField.SEQ: 1, MessageField.PARENT_SEQ: 1}


class ReplyBoundary(NamedTuple):
    """The two stored replies on both sides of a boundary.

    `last_before`: seq of the last reply before it; 0: none. `first_after`: seq of the first reply after it; None: none.
    """

    last_before: int
    first_after: int | None


class ReplyBoundaries:
    """Finds boundaries by the `parent_seq` of replies, which never goes down within a thread."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._final: OrderedDict[tuple[ConversationId, int], ReplyBoundary] = OrderedDict()

    async def find(self, thread: ConversationId, parent_seq: int, newest_seq: int) -> ReplyBoundary:
        """Return the boundary after a seq of the parent conversation: replies up to it have this `parent_seq` or less.

        Both replies are read. So replies between them, whose commits are not complete, are on neither side. One round
        trip for each halving of the thread, and one; none if this process knows a boundary that cannot change.

        Args:
            thread: The thread.
            parent_seq: The seq in the parent conversation.
            newest_seq: Newest seq of the thread.
        """
        key = thread, parent_seq
        if key in self._final:
            return self._final[key]
        low, high = 1, newest_seq + 1
        while low < high:
            middle = (low + high) // 2
            for row in await self._find(between_places(thread, middle, newest_seq), _FIRST):
                if row[MessageField.PARENT_SEQ] <= parent_seq:
                    low = row[MessageField.SEQ] + 1
                    break
            else:
                high = middle
        before = between_places(thread, 1, low - 1) | {MessageField.PARENT_SEQ: {"$lte": parent_seq}}
        after = between_places(thread, low, newest_seq) | {MessageField.PARENT_SEQ: {"$gt": parent_seq}}
        last, first = await self._mongo.gather(self._find(before, _LAST), self._find(after, _FIRST))
        found = ReplyBoundary(last[0][MessageField.SEQ] if last else 0, first[0][MessageField.SEQ] if first else None)
        if found.first_after == found.last_before + 1:
            self._remember(key, found)
        return found

    async def _find(self, query: dict[str, Any], order: list[tuple[str, int]]) -> list[Document]:
        return await self._mongo.find(MESSAGES, query, sort=order, limit=1, projection=_PROJECTION)

    def _remember(self, key: tuple[ConversationId, int], boundary: ReplyBoundary) -> None:
        """Keep a boundary between two neighbours, which stays. If there are too many, the first one is dropped."""
        if len(self._final) >= _MAX_BOUNDARIES:
            self._final.popitem(last=False)
        self._final[key] = boundary
