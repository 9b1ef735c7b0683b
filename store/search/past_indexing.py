"""Indexes messages of the past, oldest first: after an upgrade, after a loss of Redis, or for a rebuild (ADR 85)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.snowflakes import first_id_at
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.mongo.client import Mongo
from store.mongo.collections import MESSAGES
from store.search.filter_terms import is_indexed
from store.search.index_parts import index_parts
from store.search.index_state import IndexState
from store.search.index_states import MAX_STORE_DELAY_MS, SETTLING_MS, IndexStates
from store.search.search_index import SearchIndex

PAGE = 2_000
"""Most messages that are read together. Those of a conversation share rows."""

_AT_ONCE = 64
"""Most messages that are indexed without a pause."""

_WAITING_SECONDS = 0.5

Report = Callable[[IndexState], None]
"""Called with the state after each step."""


class PastIndexing:
    """Indexes the past of a deployment, in one process at a time. Another process continues if it dies.

    Attributes:
        indexed: Messages that this process has indexed.
    """

    def __init__(self, mongo: Mongo, index: SearchIndex, states: IndexStates, clock: Clock, pause_ratio: float) -> None:
        """Index nothing yet. pause_ratio: seconds of pause for each second of work, so that requests run."""
        self._mongo = mongo
        self._index = index
        self._states = states
        self._clock = clock
        self._pause_ratio = pause_ratio
        self.indexed = 0

    async def run(self, report: Report = lambda _: None) -> bool:
        """Index until the past is indexed. Return False if another process does it. Raises StoreError."""
        try:
            while await self._states.take_lease():
                state = await self._states.read()
                report(state)
                if state.is_complete:
                    return True
                began = time.perf_counter()
                has_worked = await self._step(state)
                await asyncio.sleep(
                    (time.perf_counter() - began) * self._pause_ratio if has_worked else _WAITING_SECONDS
                )
            return False
        finally:
            with suppress(StoreError):
                await self._states.release_lease()

    async def run_if_due(self) -> None:
        """Index the past, unless it is indexed or another process does it. Raises StoreError."""
        state = await self._states.find()
        if not state.is_complete and not state.is_owned:
            await self.run()

    async def _step(self, state: IndexState) -> bool:
        """Index a page. Return False if this has to wait for other servers."""
        if state.is_full and state.now_ms < state.begun_ms + SETTLING_MS:
            return False
        now = self._clock.now_ms()
        may_be_unnoted = state.unnoted_until_ms > now
        # Other servers may still store messages with earlier ids, without notes.
        end = min(state.last_id, first_id_at(now - MAX_STORE_DELAY_MS)) if may_be_unnoted else state.last_id
        assert state.position is not None
        if state.position < end:
            await self._index_ids(state, state.position, end)
        elif may_be_unnoted:
            return False
        elif state.edited_since_ms is None or await self._index_edits(state, state.edited_since_ms):
            if state.is_full:
                await self._index.forget_earlier(state.rebuild)
            await self._states.end(state)
        return True

    async def _index_ids(self, state: IndexState, position: int, end: int) -> None:
        query = {MessageField.ID: {"$gt": position, "$lte": end}}
        page = await self._read(query, MessageField.ID, PAGE)
        await self._index_all(page, state.rebuild)
        await self._states.advance(state, page[-1].id if len(page) == PAGE else end)

    async def _index_edits(self, state: IndexState, since_ms: int) -> bool:
        """Index a page of edited messages. Return whether it was the last one."""
        query, limit = {MessageField.EDITED_AT: {"$gte": since_ms}}, PAGE
        page = await self._read(query, MessageField.EDITED_AT, limit)
        while len(page) == limit and page[-1].edited_at_ms == since_ms:
            limit *= 2
            page = await self._read(query, MessageField.EDITED_AT, limit)
        await self._index_all(page, state.rebuild)
        if len(page) < limit:
            return True
        assert page[-1].edited_at_ms is not None
        await self._states.advance_edits(state, page[-1].edited_at_ms)
        return False

    async def _read(self, query: Mapping[str, Any], order: str, limit: int) -> list[Message]:
        """Read a page of messages. On a sharded cluster the query goes to every shard."""
        rows = await self._mongo.find(MESSAGES, query, sort=[(order, 1)], limit=limit)
        return [message_from(row) for row in rows]

    async def _index_all(self, page: Sequence[Message], rebuild: int) -> None:
        found = sorted(filter(is_indexed, page), key=lambda message: (message.conversation, message.seq))
        for part in index_parts(found, _AT_ONCE):
            await self._index.index(part, rebuild)
            self.indexed += len(part)
            # Lets requests of this process run.
            await asyncio.sleep(0)
