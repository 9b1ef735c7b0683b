"""Events of outgoing webhooks that are not in the log yet: entries of streams in Redis (ADR 90)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import orjson

from store.base.ids import ConversationId, without_thread
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.webhooks.event_rows import NotedEvent

_KEYS_IN_CLUSTER = 8
"""Number of streams in a cluster, so that its nodes share them. A single Redis has one."""

_FIELD = "e"


class EventEntry(NamedTuple):
    """An entry of a stream, with its events."""

    key: str
    id: bytes
    events: Sequence[NotedEvent]


class EventNotes:
    """The streams. All events of a conversation, and of its threads, are in one stream, in order."""

    def __init__(self, cache: Cache, keys: Keys) -> None:
        self._cache = cache
        self._keys = keys
        self._key_count = _KEYS_IN_CLUSTER if cache.is_cluster else 1

    def note_calls(self, events: Iterable[NotedEvent], *, is_recovery: bool = False) -> list[Call]:
        """Return the calls that note events, at most one for each stream.

        is_recovery: their notes were lost with Redis. Streams of their own are for these; they are read first.
        """
        by_key: dict[str, list[str | bytes]] = {}
        for event in events:
            by_key.setdefault(self._key_of(event.conversation, is_recovery=is_recovery), []).extend(
                (_FIELD, orjson.dumps([*event]))
            )
        return [Call("XADD", (key,), ("*", *fields)) for key, fields in by_key.items()]

    async def list_entries(
        self, limit: int, after: Mapping[str, bytes] = MappingProxyType({}), *, is_recovery: bool = False
    ) -> list[EventEntry]:
        """Return the oldest entries of each stream, at most `limit` of each. One round trip that nobody waits for.

        Args:
            limit: Most entries of a stream.
            after: By `EventEntry.key`: entries up to this `EventEntry.id` are left out.
            is_recovery: List the streams of events whose notes were lost with Redis.
        """
        keys = self._keys_of(is_recovery=is_recovery)
        starts = [b"(" + after[key] if key in after else b"-" for key in keys]
        answers = await self._cache.run_in_background(
            [Call("XRANGE", (key,), (start, "+", "COUNT", limit)) for key, start in zip(keys, starts, strict=True)]
        )
        return [
            EventEntry(key, id, [_event_from(value) for value in fields[1::2]])
            for key, entries in zip(keys, answers, strict=True)
            for id, fields in entries
        ]

    async def remove(self, entries: Iterable[EventEntry]) -> None:
        """Remove entries whose events are in the log."""
        by_key: dict[str, list[bytes]] = {}
        for entry in entries:
            by_key.setdefault(entry.key, []).append(entry.id)
        if by_key:
            await self._cache.run_in_background([Call("XDEL", (key,), tuple(ids)) for key, ids in by_key.items()])

    async def count(self) -> int:
        """Return the number of entries. One round trip that nobody waits for."""
        keys = [*self._keys_of(is_recovery=True), *self._keys_of(is_recovery=False)]
        return sum(await self._cache.run_in_background([Call("XLEN", (key,), ()) for key in keys]))

    def _keys_of(self, *, is_recovery: bool) -> list[str]:
        return [self._keys.webhook_events(number, is_recovery=is_recovery) for number in range(self._key_count)]

    def _key_of(self, conversation: str, *, is_recovery: bool) -> str:
        deciding = without_thread(ConversationId(conversation))
        number = zlib.crc32(deciding.encode()) % self._key_count
        return self._keys.webhook_events(number, is_recovery=is_recovery)


def _event_from(value: bytes) -> NotedEvent:
    id, type, conversation, reference, at_ms, seq, *_ = orjson.loads(value)
    return NotedEvent(id, type, conversation, tuple(reference), at_ms, seq)
