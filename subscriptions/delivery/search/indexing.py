"""Writes the index of messages after they are delivered (ADR 85)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import structlog

from store.base.background import mark_as_background
from store.base.errors import StoreError, Unreachable
from store.base.ids import MessageId
from store.base.tasks import end_tasks
from store.messages.message import Message
from store.messages.revision_store import RevisionKind
from store.redis.cache import Call
from store.search.filter_terms import is_indexed
from store.search.index_parts import index_parts
from store.search.index_state import FRESH_SECONDS
from store.search.index_states import MAX_STORE_DELAY_MS
from store.search.past_indexing import PastIndexing
from store.store import Store

_log = structlog.get_logger()

INTERVAL_SECONDS = 1.0
"""Messages delivered within this time are indexed together, so that those of a conversation share rows."""

_MOST_REMEMBERED = 10_000
"""Delivered messages that one process remembers. Others are read from MongoDB when their notes are old."""

_AT_ONCE = 128
"""Most messages that are indexed without a pause. Their terms take some milliseconds: no request is answered then."""

OLD_MS = 5_000
"""Age of a note after which its server has died, or failed to index the message."""

_OLD_AT_ONCE = 500
OLD_INTERVAL_SECONDS = 2.0
"""Interval at which one server looks for old notes."""

_LOCK_MS = 1_900

PAST_INTERVAL_SECONDS = 5.0
"""Interval at which each server looks whether messages of the past have to be indexed."""

MOST_NOTES = 200_000
"""Notes that Redis keeps, about 20 MB. If there are more, the messages are indexed like those of the past."""

MOST_AGE_MS = 20_000
"""Age of the oldest note from which on notes are left to the past.

After a loss of Redis only what was sent or edited in the last 30 s before it becomes part of the past.
"""

NOTICING_SECONDS = FRESH_SECONDS + 1.0
"""Time after which every server that searches knows that the past was extended."""

_PAST_PAUSE_RATIO = 4.0
"""Seconds of pause for each second of work on the past."""

_CLOSING_SECONDS = 2.0

_INDEXED = (None, RevisionKind.EDIT)
"""Changes of messages that change the index. Recalled messages are left out when they are found."""

_WRITE_SECONDS = 10.0
"""Time limit of one write. Rows that are written later could be removed by a rebuild: see `SETTLING_MS`."""


class SearchIndexing:
    """Indexes messages that this process has delivered, and those that other servers have left."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._delivered: dict[tuple[MessageId, int], Message] = {}
        """By id and number of edits."""
        self._filled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._is_failing = False
        self._indexed = 0
        index = store.search_index
        self._past = (
            PastIndexing(store.mongo, index, store.index_states, store.clock, _PAST_PAUSE_RATIO) if index else None
        )

    @property
    def indexed(self) -> int:
        """Messages that this process has indexed since its start."""
        return self._indexed + (self._past.indexed if self._past is not None else 0)

    def open(self) -> None:
        """Start to index taken messages in the background. Does nothing if search is off."""
        if self._store.search_index is not None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Index what is remembered, then stop. What fails is left to other servers."""
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None
            # Otherwise other servers do it.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING_SECONDS):
                    await self.index_delivered()

    def note_calls(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> list[Call]:
        """See `MessageNotes`, and `UnindexedMessages.note_calls`. Of revisions only edits are noted."""
        if self._store.search_index is None or revision not in _INDEXED:
            return []
        return self._store.unindexed_messages.note_calls(messages)

    def take(self, messages: Sequence[Message], revision: RevisionKind | None = None) -> None:
        """See `MessageNotes`."""
        if self._store.search_index is None or revision not in _INDEXED:
            return
        for message in messages:
            if is_indexed(message) and len(self._delivered) < _MOST_REMEMBERED:
                self._delivered[message.id, message.edits] = message
        self._filled.set()

    async def index_delivered(self) -> None:
        """Index all messages that were taken. If it fails, this is logged, and their notes stay."""
        async with self._lock:
            delivered, self._delivered = self._delivered, {}
            ordered = sorted(delivered.values(), key=lambda message: (message.conversation, message.seq))
            try:
                for part in index_parts(ordered, _AT_ONCE):
                    await self.index(part)
                    await self._store.unindexed_messages.remove(part)
                self._is_failing = False
            except StoreError as error:
                if not self._is_failing:
                    _log.warning("messages_not_indexed_yet", messages=len(ordered), reason=str(error))
                self._is_failing = True
            except Exception:
                _log.exception("messages_not_indexed_yet", messages=len(ordered))

    async def index(self, messages: Sequence[Message]) -> None:
        """Index messages under the number of the current rebuild. Raises StoreError."""
        index = self._store.search_index
        assert index is not None
        state = await self._store.index_states.find()
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await index.index(messages, state.rebuild)
        except TimeoutError:
            raise Unreachable("the index was not written in time") from None
        self._indexed += len(messages)

    async def index_old(self) -> int:
        """Index messages whose notes are old, on one server at a time. Return their number. Raises StoreError."""
        store = self._store
        if store.search_index is None:
            return 0
        store.cache.require_shared()
        lock = Call("SET", (store.keys.indexing_lock,), (store.deployment.owner, "NX", "PX", _LOCK_MS))
        if await store.cache.one(lock) is None:
            return 0
        count, age_ms = await store.unindexed_messages.measure()
        if count > MOST_NOTES or age_ms > MOST_AGE_MS:
            await self._leave_to_past(age_ms)
            return 0
        done = 0
        while notes := await store.unindexed_messages.list_older(OLD_MS, _OLD_AT_ONCE):
            messages = await store.messages.find_many([(note.conversation, note.seq) for note in notes])
            found = [message for message in messages.values() if is_indexed(message)]
            for part in index_parts(found, _AT_ONCE):
                await self.index(part)
            await store.unindexed_messages.remove(notes)
            done += len(notes)
            if len(notes) < _OLD_AT_ONCE:
                break
        return done

    async def _leave_to_past(self, age_ms: int) -> None:
        """Replace the notes by the time of the oldest one: the messages since then become part of the past."""
        store, now = self._store, self._store.clock.now_ms()
        await store.index_states.extend(now - age_ms - MAX_STORE_DELAY_MS)
        # A server that does not know it yet would call a search complete without these notes.
        await asyncio.sleep(NOTICING_SECONDS)
        await store.unindexed_messages.drop_until(now)
        _log.warning("unindexed_messages_left_to_past", seconds=age_ms / 1000)

    async def index_past(self) -> None:
        """Index the past, unless it is indexed or another process does it. Raises StoreError."""
        if self._past is not None:
            await self._past.run_if_due()

    async def watch_servers_without_notes(self) -> None:
        """Look for servers that note no messages. Raises StoreError."""
        if self._store.search_index is not None:
            await self._store.deployment.watch_servers_without_notes()

    async def _run(self) -> None:
        mark_as_background()
        while True:
            await self._filled.wait()
            self._filled.clear()
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.index_delivered()
