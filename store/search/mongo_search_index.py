"""The index of messages in MongoDB (ADR 85)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any

from store.base.errors import TimeLimit
from store.base.ids import ConversationId, MessageId
from store.messages.message import Message
from store.mongo.client import Document, Mongo
from store.mongo.collections import SEARCH
from store.mongo.index_fields import BY_NEWEST
from store.mongo.paced_reads import read_in_steps
from store.mongo.writes import Write
from store.search.filter_terms import message_terms
from store.search.index_queries import (
    MOST_CONVERSATIONS,
    IndexQuery,
    RowMatcher,
    beginning_query,
    looks_up_beginning,
    newest_query,
    overlapping_query,
)
from store.search.index_rows import (
    SPREAD,
    IndexedMessage,
    IndexField,
    places_in,
    proposal_of,
    rows_of,
    without_messages,
)
from store.search.search_index import Proposal, Proposals, SearchCriteria, SearchIndex, TooSlow

_MOST_ROWS = 1_000
"""Rows that one query reads. With the most messages each they stay below the 16 MiB of a reply."""

_ROWS_OF_ONE_LETTER = 100
"""Rows that are read for a beginning of one letter, and twice as many for each further letter.

If there are more, the beginning is frequent, and these rows were read in vain. Short beginnings usually are frequent,
so few rows are read for them. Each takes 50 us, because its terms are compared.
"""

_ROWS_PER_STEP = 1_000
_WHOLE_ROWS_PER_STEP = 200
"""Rows with all their terms. A row of one long message may have 100 kB."""

_F = IndexField


class MongoSearchIndex(SearchIndex):
    """The index of messages as rows of terms in the collection `search`. Nothing is cached."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def propose(self, criteria: SearchCriteria, seconds: float) -> Proposals:
        """Return the newest messages that may match. One round trip; two if the beginning is frequent.

        Raises:
            TooSlow: It took longer than `seconds`.
            Unreachable: MongoDB does not answer.
        """
        if not criteria.conversations or not all(criteria.any_of):
            return Proposals([], None)
        if seconds <= 0:
            raise TooSlow
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            if looks_up_beginning(criteria):
                rows = await self._find_beginning(criteria, seconds)
                if rows is not None:
                    return Proposals(_newest_first(criteria, rows), None)
            return await self._find_newest(criteria, max(0.001, deadline - loop.time()))
        except TimeLimit:
            raise TooSlow from None

    async def _find_beginning(self, criteria: SearchCriteria, seconds: float) -> list[Document] | None:
        """Return all rows with the beginning; None if there are too many."""
        parts = _parts(criteria.conversations)
        limit = _rows_of_beginning(criteria.beginning) // len(parts) or 1
        found: list[list[Document]] = await self._mongo.gather(
            *(self._find(beginning_query(criteria, part), limit, seconds) for part in parts)
        )
        if any(len(rows) == limit for rows in found):
            return None
        return [row for rows in found for row in rows]

    async def _find_newest(self, criteria: SearchCriteria, seconds: float) -> Proposals:
        """Return messages of the newest rows."""
        parts = _parts(criteria.conversations)
        limit = max(1, min(criteria.limit, _MOST_ROWS))
        reads = [self._find(newest_query(criteria, part), limit, seconds) for part in parts]
        if criteria.before_id is not None:
            overlapping = (overlapping_query(criteria, part, criteria.before_id) for part in parts)
            reads += [self._find(query, 0, seconds) for query in overlapping]
        found: list[list[Document]] = await self._mongo.gather(*reads)
        # The rows that were not read are not newer than the last one of their query.
        last_rows = [rows[-1] for rows in found[: len(parts)] if len(rows) == limit]
        last = max(last_rows, key=lambda row: int(row[_F.NEWEST]), default=None)
        proposals = _newest_first(criteria, (row for rows in found for row in rows))
        if last is None:
            return Proposals(proposals, None)
        next_id = int(last[_F.NEWEST])
        proposals = [proposal for proposal in proposals if proposal.id >= next_id]
        if not proposals or proposals[-1].id > next_id:
            # Another row may have the same message before or after an edit. It is proposed in any case, because the
            # next call begins below it.
            proposals += [proposal_of(last, place) for place in places_in(last) if place.id == next_id]
        return Proposals(proposals, next_id)

    async def _find(self, query: IndexQuery, limit: int, seconds: float) -> list[Document]:
        return await self._mongo.find(
            SEARCH,
            query.query,
            projection=query.projection,
            sort=query.sort,
            limit=limit,
            hint=query.hint,
            seconds=seconds,
        )

    async def index(self, messages: Sequence[Message], rebuild: int) -> None:
        """Add messages, in rows of their own. Those without words are left out. One round trip."""
        indexed = (
            IndexedMessage(message.id, message.conversation, message.seq, message_terms(message))
            for message in messages
        )
        await self.index_terms([message for message in indexed if message.terms], rebuild)

    async def index_terms(self, messages: Sequence[IndexedMessage], rebuild: int) -> None:
        """Add messages whose terms are known. One round trip."""
        if messages:
            await self._mongo.write([Write.inserts(SEARCH, rows_of(messages, rebuild))])

    async def forget(self, conversation: ConversationId) -> None:
        """Remove all messages of a conversation, in steps."""
        while rows := await self._mongo.find(
            SEARCH,
            {_F.CONVERSATION: conversation},
            projection={_F.CONVERSATION: 1, _F.NEWEST: 1},
            sort=BY_NEWEST,
            limit=_ROWS_PER_STEP,
            hint=BY_NEWEST,
        ):
            await self._mongo.delete_each(SEARCH, rows)

    async def forget_messages(self, conversation: ConversationId, ids: Collection[MessageId]) -> None:
        """Remove some messages of a conversation. Others that shared a row with them stay indexed."""
        for first, last in _ranges(ids):
            async for rows in self._whole_rows(conversation, first, last + SPREAD):
                await self._rewrite([row for row in rows if any(place.id in ids for place in places_in(row))], ids)

    async def _whole_rows(self, conversation: ConversationId, first: int, last: int) -> AsyncIterator[list[Document]]:
        """Yield the rows with newest ids from one to another, in steps, perhaps with rows inserted meanwhile."""
        seen: list[Any] = []
        while True:
            query = {_F.CONVERSATION: conversation, _F.NEWEST: {"$gte": first, "$lte": last}, "_id": {"$nin": seen}}
            rows = await self._mongo.find(SEARCH, query, sort=BY_NEWEST, limit=_WHOLE_ROWS_PER_STEP, hint=BY_NEWEST)
            if not rows:
                return
            yield rows
            newest = int(rows[-1][_F.NEWEST])
            # Several rows may have the same newest id, and not all of them were read.
            seen = [*(seen if newest == first else ()), *(row["_id"] for row in rows if row[_F.NEWEST] == newest)]
            first = newest

    async def _rewrite(self, rows: Sequence[Document], ids: Collection[MessageId]) -> None:
        """Replace whole rows by rows without some messages."""
        # A moment with both rows is harmless. A moment with none would hide messages that stay.
        if replacing := [new for row in rows for new in without_messages(row, ids)]:
            await self._mongo.write([Write.inserts(SEARCH, replacing)])
        if rows:
            await self._mongo.delete_each(SEARCH, [_identity(row) for row in rows])

    async def forget_earlier(self, rebuild: int) -> None:
        """Remove the rows of earlier rebuilds, in steps, with pauses."""
        fields = {_F.CONVERSATION: 1, _F.NEWEST: 1, _F.REBUILD: 1}
        async for rows in read_in_steps(self._mongo, SEARCH, {}, projection=fields, size=_ROWS_PER_STEP):
            if earlier := [_identity(row) for row in rows if row[_F.REBUILD] < rebuild]:
                await self._mongo.delete_each(SEARCH, earlier)


def _rows_of_beginning(beginning: str) -> int:
    """Return the number of rows from which on a beginning is frequent."""
    return int(min(_MOST_ROWS, _ROWS_OF_ONE_LETTER << len(beginning) - 1))


def _newest_first(criteria: SearchCriteria, rows: Iterable[Document]) -> list[Proposal]:
    matcher = RowMatcher(criteria)
    found = {place.id: proposal_of(row, place) for row in rows for place in matcher.places(row)}
    return sorted(found.values(), reverse=True)


def _parts(conversations: Sequence[ConversationId]) -> list[Sequence[ConversationId]]:
    each_once = list(dict.fromkeys(conversations))
    return [each_once[at : at + MOST_CONVERSATIONS] for at in range(0, len(each_once), MOST_CONVERSATIONS)]


def _ranges(ids: Collection[MessageId]) -> list[tuple[int, int]]:
    """Return ranges of ids, first and last, that contain all ids and are not longer than a row may be."""
    ranges: list[tuple[int, int]] = []
    for id in sorted(ids):
        if ranges and id - ranges[-1][0] <= SPREAD:
            ranges[-1] = (ranges[-1][0], id)
        else:
            ranges.append((id, id))
    return ranges


def _identity(row: Document) -> Document:
    return {field: row[field] for field in ("_id", _F.CONVERSATION, _F.NEWEST)}
